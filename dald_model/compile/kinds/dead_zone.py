r"""Dead zones: :math:`\max(|u| - \varepsilon, 0)`, as of support vector regression.

No kind of its own but two kinks, or two squared hinges, of which at most one is up at any point:

.. math:: \max(a, b, 0) = \max(a, 0) + \max(b, 0) \quad\text{where}\quad \min(a, b) \le 0.
"""

from __future__ import annotations

from dald_model.compile.kinds.absolute import ABSOLUTE
from dald_model.compile.kinds.hinge import SquaredHinge
from dald_model.compile.patterns import Component, Recognised, Row, combined, without

SQUARED = SquaredHinge()


def dead_zone(component: Component) -> list[Recognised]:
    r"""Rows s >= k t + c, s >= 0 and t >= l_1, t >= l_2, with a cost or curvature of s alone.

    Source: V. Vapnik, The Nature of Statistical Learning Theory, 1995, section 6.1, for the loss.
    """
    ends = _ends(component)
    if ends is None:
        return []
    s, sides = ends
    if component.bend[s]:
        return [Recognised(SQUARED, [side], None, s, 1.0) for side in sides]
    return [Recognised(ABSOLUTE, [side], side, s, 0.5) for side in sides]  # (l + |l|) / 2


def _ends(component: Component) -> tuple[int, list[Row]] | None:
    """The column s and the two affine functions of which s is the larger, or zero."""
    q, bend, columns = component.q, component.bend, component.columns
    if [kind for kind, _ in component.cones] != ["nonneg"] * 4 or len(columns) != 2:
        return None
    tops = [c for c in columns if q[c] or bend[c]]
    if len(tops) != 1 or q[tops[0]] < 0 or (q[tops[0]] and bend[tops[0]]):
        return None
    s, t = tops[0], columns[1 - columns.index(tops[0])]
    rows = [rows[0] for _, rows in component.cones]
    over = [_least(row, s) for row in rows if s in row[0]]
    under = [_least(row, t) for row in rows if s not in row[0]]
    if len(over) != 2 or None in (*over, *under) or ({}, 0.0) not in over:
        return None
    (factors, constant) = over[1 - over.index(({}, 0.0))] or ({}, 0.0)
    if set(factors) != {t} or factors[t] <= 0:
        return None
    one, two = (combined((factors[t], row or ({}, 0.0)), (1.0, ({}, constant))) for row in under)
    return (s, [one, two]) if _is_never_both(one, two) else None


def _least(row: Row, column: int) -> Row | None:
    """What a row says that a column is at least; None if it says no such thing."""
    factor = row[0].get(column, 0.0)
    return combined((-1 / factor, without(row, column))) if factor > 0 else None


def _is_never_both(one: Row, two: Row) -> bool:
    """Whether of two functions in opposite directions at most one is positive at any point."""
    if len(one[0]) != 1 or one[0].keys() != two[0].keys():
        return False
    (up,), (down,) = one[0].values(), two[0].values()
    return up * down < 0 and one[1] - up / down * two[1] <= 0
