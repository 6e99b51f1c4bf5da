"""Messages of engines taken apart and put together, here alone as they are written."""

from dald_model.engines.schema import DamagedError
from dald_model.engines.wire import decode, encode

__all__ = ["DamagedError", "decode", "encode"]
