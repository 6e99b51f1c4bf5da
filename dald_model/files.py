"""Files that are written whole or not at all, and by one run at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: files are whole there, too, but two runs are not told apart
    fcntl = None


class InUseError(OSError):
    """Another run writes the file."""


def check_regular(path: Path) -> None:
    """Refuse to replace what is no file, such as a folder or a device.

    Raises
    ------
    OSError
    """
    if path.exists() and not path.is_file():
        raise OSError(f"it is there and no regular file: {path}")
    if not path.parent.is_dir():
        raise OSError(f"there is no folder {path.parent}")


def replace(path: Path, data: bytes) -> None:
    """Write a file beside, under a name of its own, and put it in the place of the old one.

    So there is a whole one at any moment, and nothing is left beside it where writing fails.

    Raises
    ------
    OSError
    """
    check_regular(path)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode(path))
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _mode(path: Path) -> int:
    """The rights of the file that is replaced, or of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other runs from writing a file, by a lock beside it that ends with the process.

    Raises
    ------
    InUseError
        If another run holds it.
    OSError
    """
    check_regular(path)
    if fcntl is None:
        yield
        return
    beside = path.with_name(f".{path.name}.lock")
    with beside.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InUseError("another run is writing it") from error
        try:
            yield
        finally:
            with suppress(OSError):
                beside.unlink()
