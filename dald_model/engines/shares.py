"""Shares of the clients that hosts get."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from dald_model.compile.subproblem import Subproblem


def shared_out(levels: Iterable[Sequence[Sequence[Subproblem]]], hosts: int) -> dict[Hashable, int]:
    """Client -> the number of its host.

    ``levels`` are the clients that are solved side by side, by session. Each level is shared out by
    itself, so that all hosts are busy at the same time; clients of a session that follow each other
    stay together.
    """
    found: dict[Hashable, int] = {}
    for level in levels:
        loads = np.zeros(hosts)
        for group in level:
            parts = np.array_split(np.arange(len(group)), hosts)
            order = np.argsort(loads, kind="stable")
            for host, part in zip(order.tolist(), parts, strict=True):
                found |= {group[at].name: host for at in part}
                loads[host] += sum(_weight(group[at]) for at in part)
    return found


def _weight(sub: Subproblem) -> int:
    """About what a client costs: the numbers that a product with its data takes."""
    form = sub.form
    if form is None:
        return 1
    rows = form.equalities.rhs.size + form.inequalities.rhs.size
    return sub.size * (sub.size + rows + sum(term.offset.size for term in form.terms))
