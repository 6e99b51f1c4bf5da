"""Where outer loops iterate one map, so that they can be accelerated."""

from __future__ import annotations

from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method


def why_not(membership: Membership, method: Method) -> str:
    """What keeps outer loops from being one nonexpansive map of multipliers and sides; or "".

    The map is that of DALD with a dual step of at most 1, all clients taking part in an order that
    stays, every client once and no two neighbours side by side.
    """
    if not method.accelerates:
        return "the algorithm is not dm.DALD with a dual step of at most 1"
    if membership.online or method.ignore_absent or membership.sequence.leaves_out:
        return "clients may be absent"
    if not membership.sequence.is_constant:
        return f"{membership.sequence} is another order from round to round"
    if membership.sequence.is_jacobi:
        return f"{membership.sequence} solves neighbours side by side"
    return ""
