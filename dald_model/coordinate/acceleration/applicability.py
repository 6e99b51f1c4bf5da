"""Where outer loops iterate one map, so that they can be accelerated."""

from __future__ import annotations

from dald_model.coordinate.method import Method
from dald_model.schedule.sequence import Sequence


def why_not(sequence: Sequence, method: Method, is_online: bool = False) -> str:
    """What keeps outer loops from being one nonexpansive map of multipliers and sides; or "".

    The map is that of DALD with a dual step of at most 1, all clients taking part in an order that
    stays, every client once and no two neighbours side by side.
    """
    if not method.accelerates:
        return "the algorithm is not dm.DALD with a dual step of at most 1"
    if is_online or method.ignore_absent or sequence.leaves_out:
        return "clients may be absent"
    if not sequence.is_constant:
        return f"{sequence} is another order from round to round"
    if sequence.is_jacobi:
        return f"{sequence} solves neighbours side by side"
    return ""
