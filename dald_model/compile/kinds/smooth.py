r"""Powers, exponentials, logarithms, entropies, logistic functions and log-sum-exp."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from dald_model.compile.components import Component, Recognised, Row, combined, without
from dald_model.compile.kinds.kind import Evaluated, Kind


class Exponential(Kind):
    r""":math:`e^u`, the least t with :math:`(u, 1, t)` in the exponential cone."""

    name = "exp"

    def read(self, component: Component) -> Recognised | None:
        if component.exponential is None:
            return None
        t, (one, two, three) = component.exponential
        factor = three[0].get(t, 0.0)
        if two != ({}, 1.0) or three != ({t: factor}, 0.0) or t in one[0]:
            return None
        if component.q[t] <= 0 or factor <= 0:
            return None
        return Recognised(self, [one], None, t, 1 / factor)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        power = np.exp(u)
        return power, power, power


class Logarithm(Kind):
    r""":math:`-\log u`, the least -t with :math:`(t, 1, u)` in the exponential cone.

    Of a number c > 0 for 1 it is :math:`-c \log u + c \log c`, as of Poisson counts c.
    """

    name = "log"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        lowered = _lowered(component)
        if lowered is None:
            return None
        t, scale, (row, count), three = lowered
        if row or count <= 0 or t in three[0]:
            return None
        rest = ({}, float(np.log(count))) if count != 1.0 else None
        return Recognised(self, [three], rest, t, scale * count)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        inverse = 1 / u
        return np.where(u > 0, -np.log(u), np.inf), -inverse, inverse**2


class Entropy(Kind):
    r""":math:`u \log u`, the least -t with :math:`(t, u, c)` in the cone, c > 0 a number."""

    name = "entropy"
    is_positive = True
    is_of_entries = True

    def read(self, component: Component) -> Recognised | None:
        lowered = _lowered(component)
        if lowered is None:
            return None
        t, scale, two, three = lowered
        if three[0] or three[1] <= 0 or t in two[0]:
            return None
        return Recognised(self, [two], combined((-np.log(three[1]), two)), t, scale)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; finite at zero."""
        logarithm = np.log(u)
        value = np.where(u > 0, u * logarithm, np.where(u == 0, 0.0, np.inf))
        return value, logarithm + 1, 1 / u


def _lowered(component: Component) -> tuple[int, float, tuple, tuple] | None:
    """The column t and its unit where its cost pulls it up, and the second and third row."""
    if component.exponential is None:
        return None
    t, (one, two, three) = component.exponential
    if set(one[0]) != {t} or one[1] or one[0][t] <= 0 or component.q[t] >= 0:
        return None
    return t, 1 / one[0][t], two, three


class Logistic(Kind):
    r""":math:`\log(1 + e^u)`, which cvxpy writes as the log-sum-exp of u and zero."""

    name = "logistic"
    most_curved = 0.25

    def read(self, component: Component) -> Recognised | None:
        if component.log_sum_exp is None:
            return None
        top, arguments = component.log_sum_exp
        if len(arguments) != 2 or ({}, 0.0) not in arguments:
            return None
        return Recognised(self, [arguments[1 - arguments.index(({}, 0.0))]], None, top, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; in place, since memory for more arrays is asked of the system anew."""
        decay = np.exp(-np.abs(u))
        value = np.log1p(decay)
        value += np.maximum(u, 0)
        share = 1 + decay
        np.divide(1, share, out=share)
        decay *= share
        gradient = np.where(u < 0, decay, share)
        decay *= share
        return value, gradient, decay

    def value(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; without the quotients."""
        return np.maximum(u, 0) + np.log1p(np.exp(-np.abs(u)))

    def gradient(self, u: np.ndarray, parameter: np.ndarray) -> np.ndarray:
        """See :class:`Kind`; without the logarithm."""
        decay = np.exp(-np.abs(u))
        return np.where(u < 0, decay, 1.0) / (1 + decay)


class LogSumExp(Kind):
    r""":math:`\log \sum_k e^{u_k}`; the gradient p is the softmax."""

    name = "logsumexp"
    most_curved = 0.5
    is_joint = True

    def read(self, component: Component) -> Recognised | None:
        if component.log_sum_exp is None:
            return None
        top, arguments = component.log_sum_exp
        return Recognised(self, arguments, None, top, 1.0)

    def inert(self, own: int, width: int) -> float:
        return -np.inf

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        top = u.max(axis=-1, keepdims=True)
        shares = np.exp(u - top)
        total = shares.sum(axis=-1, keepdims=True)
        shares /= total
        return (top + np.log(total))[..., 0], shares, shares * (1 - shares)

    def root(
        self, rows: np.ndarray, u: np.ndarray, weight: np.ndarray, parameter: np.ndarray
    ) -> np.ndarray:
        r""":math:`\sqrt{w p_k}\,(a_k - \bar a)` with :math:`\bar a = \sum_k p_k a_k`."""
        shares = self.evaluate(u, parameter)[1]
        centred = rows - np.matmul(shares[..., None, :], rows)
        centred *= np.sqrt(weight[..., None] * shares)[..., None]
        return centred


class Square(Kind):
    r""":math:`u^2 / 2`."""

    name = "square"
    most_curved = 1.0

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        return u * u / 2, u, np.ones(u.shape)


SQUARE = Square()


class Cube(Kind):
    r""":math:`|u|^3`, as of the head that flows lose in pipes, which grows with their square."""

    name = "cube"

    def read(self, component: Component) -> Recognised | None:
        r"""Rows :math:`|u| \le a`, and cones :math:`a^2 \le s` and :math:`s^2 \le t a`."""
        columns, t = component.columns, component.top
        pair = [rows[0] for kind, rows in component.cones if kind == "nonneg"]
        cones = [rows for kind, rows in component.cones if kind == "soc"]
        counts = len(columns), len(pair), len(cones), len(component.cones)
        if counts != (3, 2, 2, 4) or t is None:
            return None
        for a, s in permutations(c for c in columns if c != t):
            square = [({s: 1.0}, 1.0), ({s: -1.0}, 1.0), ({a: 2.0}, 0.0)]
            cubic = [({t: 1.0, a: 1.0}, 0.0), ({t: 1.0, a: -1.0}, 0.0), ({s: 2.0}, 0.0)]
            if square not in cones or cubic not in cones:
                continue
            if any(row.get(a, 0.0) <= 0 for row, _ in pair):
                return None
            one, two = (combined((1 / row[0][a], without(row, a))) for row in pair)
            is_size = combined((1.0, one), (1.0, two)) == ({}, 0.0)
            is_own = not set(one[0]) & set(columns)
            return Recognised(self, [one], None, t, 1.0) if is_size and is_own else None
        return None

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        size = np.abs(u)
        return size**3, 3 * u * size, 6 * size


class Quartic(Kind):
    r""":math:`u^4`."""

    name = "quartic"

    def read(self, component: Component) -> Recognised | None:
        r"""Cones :math:`u^2 \le s` and :math:`s^2 \le t`."""
        columns, t = component.columns, component.top
        if [kind for kind, _ in component.cones] != ["soc", "soc"] or len(columns) != 2:
            return None
        if t is None:
            return None
        s = columns[1 - columns.index(t)]
        cones = [rows for _, rows in component.cones]
        outer = [({t: 1.0}, 1.0), ({t: 1.0}, -1.0), ({s: 2.0}, 0.0)]
        inner = [rows for rows in cones if rows[:2] == [({s: 1.0}, 1.0), ({s: -1.0}, 1.0)]]
        if outer not in cones or len(inner) != 1 or len(inner[0]) != 3:
            return None
        row, constant = inner[0][2]
        if set(row) & set(columns):
            return None
        half: Row = {c: a / 2 for c, a in row.items()}, constant / 2
        return Recognised(self, [half], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        square = u * u
        return square * square, 4 * u * square, 12 * square


class Reciprocal(Kind):
    r""":math:`1/u`, the least t with :math:`\|(t - u, 2)\| \le t + u`.

    Source: J. Mo and J. Walrand, Fair end-to-end window-based congestion control, IEEE/ACM
    Transactions on Networking 8(5), 2000: the utility :math:`u^{1-\alpha} / (1 - \alpha)`, alpha 2.
    """

    name = "reciprocal"
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        if len(component.columns) != 1 or [kind for kind, _ in component.cones] != ["soc"]:
            return None
        t, rows = component.columns[0], component.cones[0][1]
        if component.bend[t] or component.q[t] <= 0 or len(rows) != 3:
            return None
        one, two, three = rows
        own = without(one, t)
        if three != ({}, 2.0) or one[0].get(t) != 1.0:
            return None
        if two != combined((1.0, own), (1.0, ({t: -1.0}, 0.0))):
            return None
        return Recognised(self, [own], None, t, 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        inverse = 1 / u
        value = np.where(u > 0, inverse, np.inf)
        return value, -(inverse**2), 2 * inverse**3
