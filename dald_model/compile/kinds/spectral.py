r"""Functions of the eigenvalues of a symmetric matrix: :math:`-\log \det U`.

Its upper triangle is the argument, column by column, entries beside the diagonal times
:math:`\sqrt 2`: so inner products of arguments are those of matrices, as Clarabel has them too.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dald_model.compile.components import Component, Recognised
from dald_model.compile.kinds.kind import Evaluated, Kind, Line
from dald_model.eigen import eigh

ROOT_TWO = float(np.sqrt(2.0))


class LogDet(Kind):
    r""":math:`-\log \det U` of a symmetric U, infinite where it is not positive definite.

    cvxpy writes it as the largest :math:`\sum_i \log Z_{ii}` with Z an upper triangle and
    :math:`\begin{pmatrix} \operatorname{diag} Z & Z \\ Z^\top & U \end{pmatrix} \succeq 0`
    (Ben-Tal and Nemirovski 2001, Lectures on modern convex optimization, section 4.2).
    """

    name = "log det"
    is_joint = True
    is_positive = True

    def read(self, component: Component) -> Recognised | None:
        q, cones = component.q, component.cones
        logs = [rows for kind, rows in cones if kind == "exp"]
        bounds = [rows for kind, rows in cones if kind == "psd"]
        size = len(logs)
        if len(cones) != size + 1 or [len(rows) for rows in bounds] != [_height(2 * size)]:
            return None
        cells = dict(zip(_cells(2 * size), bounds[0], strict=True))
        above = {cell: [*cells[cell[0], size + cell[1]][0]] for cell in _cells(size)}
        tops = [column for first, *_ in logs for column in first[0]]
        free = [*tops, *(column for columns in above.values() for column in columns)]
        if sorted(free) != component.columns or any(
            len(columns) != 1 for columns in above.values()
        ):
            return None
        costs = {float(q[column]) for column in tops}
        if (
            len(costs) != 1
            or min(costs) >= 0
            or any(q[free[size:]])
            or any(component.bend.values())
        ):
            return None
        diagonal = [above[i, i][0] for i in range(size)]
        for (i, j), row in cells.items():
            if j < size:
                wanted = ({diagonal[i]: 1.0} if i == j else {}), 0.0
            elif i < size:
                wanted = ({above[i, j - size][0]: ROOT_TWO} if i <= j - size else {}), 0.0
            else:
                wanted = row
            if row != wanted:
                return None
        plain = [[({top: 1.0}, 0.0), ({}, 1.0)] for top in tops]
        if [rows[:2] for rows in logs] != plain:
            return None
        if sorted(c for *_, (row, _) in logs for c in row) != sorted(diagonal):
            return None
        if any(a != 1.0 for *_, (row, constant) in logs for a in (*row.values(), 1.0 + constant)):
            return None
        arguments = [cells[size + i, size + j] for i, j in _cells(size)]
        if any(column in component.columns for row, _ in arguments for column in row):
            return None
        return Recognised(self, arguments, None, tops[0], 1.0)

    def evaluate(self, u: np.ndarray, parameter: np.ndarray) -> Evaluated:
        """See :class:`Kind`; the second derivatives are those along single arguments."""
        values, vectors = _spectrum(u)
        is_inside = values[..., 0] > 0
        safe = np.where(is_inside[..., None], values, 1.0)
        level = np.where(is_inside, -np.log(safe).sum(axis=-1), np.inf)
        inverse = (vectors / safe[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        row, column, weight = _places(values.shape[-1])
        beside = inverse[..., row, column]
        bends = inverse[..., row, row] * inverse[..., column, column] + (weight > 1) * beside**2
        return level, -weight * beside, bends

    def root(
        self, rows: np.ndarray, u: np.ndarray, weight: np.ndarray, parameter: np.ndarray
    ) -> np.ndarray:
        r""":math:`\sqrt w\, \Lambda^{-1/2} V^\top A_t V \Lambda^{-1/2}`; V are U's eigenvectors."""
        matrices = _matrices(np.swapaxes(rows, -1, -2))
        found = _arguments(_seen_from(_halves(u)[..., None, :, :], matrices))
        return np.swapaxes(found * np.sqrt(weight)[..., None, None], -1, -2)

    def line(self, u: np.ndarray, change: np.ndarray) -> Line:
        r""":math:`-\sum_i g_i / (1 + t g_i)`.

        g are the eigenvalues of :math:`\Lambda^{-1/2} V^\top \dot U V \Lambda^{-1/2}`.
        """
        gains = np.linalg.eigvalsh(_seen_from(_halves(u), _matrices(change)))

        def rise(t: np.ndarray) -> np.ndarray:
            left = 1.0 + t * gains
            return np.where((left > 0).all(axis=-1), -(gains / left).sum(axis=-1), np.inf)

        return rise

    def idle(self, width: int) -> np.ndarray:
        return _arguments(np.eye(_order(width)))

    def inert(self, own: int, width: int) -> np.ndarray:
        return self.idle(width)[own:]

    def inward(self, u: np.ndarray, least: float) -> np.ndarray:
        """See :class:`Kind`: eigenvalues of at least so much."""
        values, vectors = _spectrum(u)
        if (values >= least).all():
            return u
        raised = vectors * np.maximum(values, least)[..., None, :]
        return _arguments(raised @ np.swapaxes(vectors, -1, -2))


def _height(size: int) -> int:
    """The entries of a triangle."""
    return size * (size + 1) // 2


def _order(width: int) -> int:
    """The size of a matrix of so many arguments."""
    return int(np.sqrt(2 * width))


def _cells(size: int) -> list[tuple[int, int]]:
    """The cells of the upper triangle, column by column."""
    return [(i, j) for j in range(size) for i in range(j + 1)]


@cache
def _places(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Their rows and columns, and what arguments are over entries."""
    row, column = np.array(_cells(size)).T
    return row, column, np.where(row == column, 1.0, ROOT_TWO)


def _matrices(u: np.ndarray) -> np.ndarray:
    """The matrices of these arguments, (..., n, n)."""
    size = _order(u.shape[-1])
    row, column, weight = _places(size)
    found = np.empty((*u.shape[:-1], size, size))
    found[..., row, column] = found[..., column, row] = u / weight
    return found


def _arguments(matrices: np.ndarray) -> np.ndarray:
    """The arguments of symmetric matrices, (..., width)."""
    row, column, weight = _places(matrices.shape[-1])
    return matrices[..., row, column] * weight


def _halves(u: np.ndarray) -> np.ndarray:
    r""":math:`V \Lambda^{-1/2}` of definite matrices :math:`U = V \Lambda V^\top`."""
    values, vectors = _spectrum(u)
    return vectors / np.sqrt(values)[..., None, :]


def _seen_from(halves: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    r""":math:`H^\top A H`."""
    return np.swapaxes(halves, -1, -2) @ matrices @ halves


def _spectrum(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors; of what is not finite as of -1, which is no one's domain."""
    matrices = _matrices(u)
    is_known = np.isfinite(u).all(axis=-1)
    if not is_known.all():
        matrices[~is_known] = -np.eye(matrices.shape[-1])
    return eigh(matrices)
