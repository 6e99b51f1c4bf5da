r"""Exponential and power cones, which have no symmetry: barriers, and scalings from them.

A matrix in the place of :math:`W^\top W` of :mod:`.cones` maps z to s (Tuncel 2001; Dahl and
Andersen 2022).
"""

from __future__ import annotations

import numpy as np
from scipy.special import wrightomega

from dald_model.sizes import HALVINGS
from dald_model.solvers.interior.cones import Cone
from dald_model.solvers.interior.rows import Rows


class Triples(Cone):
    """Cones of three entries without symmetry; a subclass has the barrier of the dual."""

    def __init__(self, count: int) -> None:
        self.count, self.size, self.degree = count, 3 * count, 3 * count

    def dual(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the dual barrier, (k, 3) and (k, 3, 3)."""
        raise NotImplementedError

    def primal(self, s: np.ndarray) -> np.ndarray:
        """The gradient of the barrier, (k, 3)."""
        raise NotImplementedError

    def is_inside(self, s: np.ndarray, z: np.ndarray) -> bool:
        """Whether both are in the interior."""
        raise NotImplementedError

    def scale(self, s: np.ndarray, z: np.ndarray) -> None:
        s, z = s.reshape(-1, 3), z.reshape(-1, 3)
        self._s, self._z = s, z
        gradient, hessian = self.dual(z)
        mu = np.vecdot(s, z) / 3
        self._shadow = self.primal(s)
        self._root, self._inverse = _roots(s, z, mu, gradient, self._shadow, hessian)

    def squared(self, v: np.ndarray) -> np.ndarray:
        bent = np.matvec(self._root.swapaxes(-1, -2), v.reshape(-1, 3))
        return np.matvec(self._root, bent).ravel()

    def inverse(self, v: np.ndarray) -> np.ndarray:
        bent = np.matvec(self._inverse, v.reshape(-1, 3))
        return np.matvec(self._inverse.swapaxes(-1, -2), bent).ravel()

    def curvature(self, rows: Rows) -> np.ndarray:
        return rows.blocked(self._inverse).gram()

    def correction(self, ds: np.ndarray, dz: np.ndarray, centring: float) -> np.ndarray:
        """See :class:`Cone`; without the third order, which costs more than it saves here."""
        return (self._z + centring * self._shadow).ravel()

    def longest(self, ds: np.ndarray, dz: np.ndarray) -> float:
        """See :class:`Cone`; found by bisection, as the boundary has no closed form."""
        ds, dz = ds.reshape(-1, 3), dz.reshape(-1, 3)
        inside, outside = 0.0, 1.0
        with np.errstate(all="ignore"):
            if self.is_inside(self._s + ds, self._z + dz):
                return 1.0
            for _ in range(HALVINGS):
                if outside - inside <= CLOSE * outside:
                    break
                step = (inside + outside) / 2
                if self.is_inside(self._s + step * ds, self._z + step * dz):
                    inside = step
                else:
                    outside = step
        return inside


CLOSE = 1e-2
"""How near a step is to the longest one, relative to it."""


class Exponential(Triples):
    r""":math:`y\, e^{x / y} \le z`, y > 0."""

    def start(self) -> np.ndarray:
        """See :class:`Cone`: where the barrier's gradient is minus the point itself."""
        return np.tile([-1.051383945322714, 0.556409619469370, 1.258967884768947], self.count)

    def dual(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See :class:`_Triples`; of -log(z2 - z1 - z1 log(-z3/z1)) - log(-z1) - log(z3)."""
        one, two, three = z.T
        log = np.log(-three / one)
        gap = two - one - one * log
        slope = np.stack([-log, np.ones_like(log), -one / three], 1)
        gradient = -slope / gap[:, None]
        gradient[:, 0] -= 1 / one
        gradient[:, 2] -= 1 / three
        hessian = slope[:, :, None] * slope[:, None, :] / (gap**2)[:, None, None]
        hessian[:, 0, 0] += -1 / (one * gap) + 1 / one**2
        hessian[:, 0, 2] += 1 / (three * gap)
        hessian[:, 2, 0] += 1 / (three * gap)
        hessian[:, 2, 2] += -one / (three**2 * gap) + 1 / three**2
        return gradient, hessian

    def primal(self, s: np.ndarray) -> np.ndarray:
        one, two, three = s.T
        omega = np.real(wrightomega(1 - one / two - np.log(two) + np.log(three)))
        first = 1 / ((omega - 1) * two)
        second = first + first * np.log(omega * two / three) - 1 / two
        return np.stack([first, second, omega / ((1 - omega) * three)], 1)

    def is_inside(self, s: np.ndarray, z: np.ndarray) -> bool:
        own = (s[:, 1] > 0) & (s[:, 2] > 0) & (s[:, 1] * np.log(s[:, 2] / s[:, 1]) > s[:, 0])
        gap = z[:, 1] - z[:, 0] - z[:, 0] * np.log(-z[:, 2] / z[:, 0])
        return bool((own & (z[:, 0] < 0) & (z[:, 2] > 0) & (gap > 0)).all())


class Power(Triples):
    r""":math:`x^a y^{1-a} \ge |z|` with exponents (k,)."""

    def __init__(self, exponents: np.ndarray) -> None:
        super().__init__(exponents.size)
        self._a = exponents

    def start(self) -> np.ndarray:
        """See :class:`Cone`: where the barrier's gradient is minus the point itself."""
        zero = np.zeros(self.count)
        return np.stack([np.sqrt(1 + self._a), np.sqrt(2 - self._a), zero], 1).ravel()

    def dual(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        one, two, three, a = *z.T, self._a
        power = (one / a) ** (2 * a) * (two / (1 - a)) ** (2 - 2 * a)
        gap = power - three**2
        first, second = 2 * a / one, (2 - 2 * a) / two
        slope = np.stack([power * first, power * second, -2 * three], 1)
        gradient = -slope / gap[:, None]
        gradient[:, 0] -= (1 - a) / one
        gradient[:, 1] -= a / two
        hessian = slope[:, :, None] * slope[:, None, :] / (gap**2)[:, None, None]
        share = power / gap
        hessian[:, 0, 0] += share * (first / one - first**2) + (1 - a) / one**2
        hessian[:, 1, 1] += share * (second / two - second**2) + a / two**2
        hessian[:, 0, 1] -= share * first * second
        hessian[:, 1, 0] -= share * first * second
        hessian[:, 2, 2] += 2 / gap
        return gradient, hessian

    def primal(self, s: np.ndarray) -> np.ndarray:
        r"""See :class:`_Triples`; by Newton's method on :math:`F'(-g) = -s`, which is damped."""
        found = np.stack([(1 + self._a) / s[:, 0], (2 - self._a) / s[:, 1], 0 * s[:, 2]], 1)
        for _ in range(100):
            gradient, hessian = self.dual(found)
            left = gradient + s
            move = np.linalg.solve(hessian, left[..., None])[..., 0]
            length = np.sqrt(np.maximum(np.vecdot(left, move), 0.0))
            found = found - move / np.where(length > 0.25, 1 + length, 1.0)[:, None]
            if length.max() < 1e-12:
                break
        return -found

    def is_inside(self, s: np.ndarray, z: np.ndarray) -> bool:
        a = self._a
        own = (s[:, :2] > 0).all(axis=1) & (s[:, 0] ** a * s[:, 1] ** (1 - a) > np.abs(s[:, 2]))
        power = (z[:, 0] / a) ** a * (z[:, 1] / (1 - a)) ** (1 - a)
        return bool((own & (z[:, :2] > 0).all(axis=1) & (power > np.abs(z[:, 2]))).all())


def _roots(
    s: np.ndarray,
    z: np.ndarray,
    mu: np.ndarray,
    gradient: np.ndarray,
    shadow: np.ndarray,
    hessian: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    r"""R and its inverse of :math:`R R^\top` that maps z to s, :math:`-F'(s)` to :math:`-F_*'(z)`.

    Dahl and Andersen (2022), equation (29), with the third direction as Clarabel has it. Columns of
    R and rows of the inverse are biorthogonal, so that nothing is inverted. Where the point is
    central, or the two pairs are dependent, the matrix is :math:`\mu F_*''(z)`. Each (k, 3, 3).
    """
    ds, dz = s + mu[:, None] * gradient, z + mu[:, None] * shadow
    with np.errstate(all="ignore"):
        inner, fall = np.vecdot(ds, dz), np.vecdot(gradient, shadow) / 3
        bent = np.matvec(hessian, shadow)
        apart = np.vecdot(shadow, bent) - 3 * fall**2
        rest = bent - fall[:, None] * gradient
        left = hessian - _outer(gradient, gradient) / 3 - _outer(rest, rest) / apart[:, None, None]
        size = np.sqrt(mu * np.linalg.norm(left, axis=(1, 2)))
        axis, other = np.cross(z, shadow), np.cross(s, gradient)
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        other /= np.vecdot(axis, other)[:, None]
        unit, step = np.sqrt(3 * mu)[:, None], np.sqrt(inner)[:, None]
        root = np.stack([s / unit, ds / step, size[:, None] * axis], 2)
        inverse = np.stack([z / unit, dz / step, other / size[:, None]], 1)
        eps = np.finfo(float).eps
        is_sound = (np.abs(mu * fall - 1) > np.sqrt(eps)) & (np.abs(apart) > eps) & (inner > 0)
        is_sound &= np.isfinite(root).all(axis=(1, 2)) & np.isfinite(inverse).all(axis=(1, 2))
    if not is_sound.all():
        central = np.flatnonzero(~is_sound)
        plain = np.linalg.cholesky(mu[central, None, None] * hessian[central])
        root[central], inverse[central] = plain, np.linalg.inv(plain)
    return root, inverse


def _outer(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return one[:, :, None] * two[:, None, :]
