"""Forms with rows and terms of each kind, exact minimisers, and how far off a step is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dald_model.compile.form import Form, Quadratic, Rows, Term
from dald_model.compile.kinds import named
from dald_model.solvers import Step, StepMethod

BOUND = 0.7
"""Where Huber functions bend."""


def form(
    size: int,
    equal: tuple[Any, Any] | None = None,
    below: tuple[Any, Any] | None = None,
    terms: Sequence[Term] = (),
    quadratic: np.ndarray | None = None,
) -> Form:
    def rows(given: tuple[Any, Any] | None) -> Rows:
        matrix, right = given or (np.zeros((0, size)), np.zeros(0))
        return Rows(np.array(matrix, dtype=float), np.array(right, dtype=float))

    def no_cone() -> Any:
        raise AssertionError("no step method looks at it")

    square = np.zeros((size, size)) if quadratic is None else quadratic
    own = Quadratic(square, np.zeros(size), 0.5)
    return Form(size, own, rows(equal), rows(below), tuple(terms), True, no_cone)


def make_form(terms: Sequence[Term], **rest: Any) -> Form:
    return form(terms[0].matrix.shape[1], terms=terms, **rest)


def make_term(kind: str, matrix: Any, offset: Any = None, weight: Any = None) -> Term:
    matrix = np.array(matrix, dtype=float)
    width = 3 if kind in ("logsumexp", "norm") else 1
    count = len(matrix) // width
    return Term(
        named(kind),
        np.ones(count) if weight is None else np.array(weight, dtype=float),
        matrix,
        np.zeros(len(matrix)) if offset is None else np.array(offset, dtype=float),
        np.full(count, BOUND if kind == "huber" else 0.0),
        width,
    )


def values(matrix: Any, weight: Any, offset: Any = None) -> Term:
    return make_term("abs", matrix, offset, weight)


def hessians(rng: np.random.Generator, count: int, size: int, decades: float = 0) -> np.ndarray:
    """Random H whose variables have units spread over so many decades."""
    data = rng.normal(size=(count, 2 * size, size))
    units = 10.0 ** rng.uniform(-decades / 2, decades / 2, (count, 1, size))
    return (data * units).transpose(0, 2, 1) @ (data * units)


def units(H: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.diagonal(H, axis1=-2, axis2=-1))


def exact(H: np.ndarray, c: np.ndarray, E: np.ndarray, e: np.ndarray) -> np.ndarray:
    """The KKT system by Gaussian elimination in extended precision: point and multipliers."""
    size, rows = H.shape[0], E.shape[0]
    system = np.zeros((size + rows, size + rows + 1), dtype=np.longdouble)
    system[:size, :size], system[:size, size:-1], system[size:, :size] = H, E.T, E
    system[:, -1] = np.concatenate([-c, e])
    # Equilibrated, so that pivots are chosen by what matters
    left = np.concatenate([units(H), 1 / np.abs(E * units(H)).max(axis=1)])
    system *= left[:, None]
    system[:, :-1] *= left
    for i in range(size + rows):
        swap = i + np.abs(system[i:, i]).argmax()
        system[[i, swap]] = system[[swap, i]]
        system[i] /= system[i, i]
        others = np.arange(size + rows) != i
        system[others] -= np.outer(system[others, i], system[i])
    return system[:, -1] * left


def residual(given: Form, H: np.ndarray, c: np.ndarray, step: Step, i: int = 0) -> float:
    """How far the optimality conditions are from holding, in units in which H has ones."""
    D, x = units(H), step.points[i]
    E, A = given.equalities, given.inequalities
    nu, force = step.equality[i], step.inequality[i]
    assert (force >= 0).all()
    pull = D * (H @ x + c + E.matrix.T @ nu + A.matrix.T @ force)
    lengths = [np.linalg.norm(rows.matrix * D, axis=1) for rows in (E, A)]
    lengths = [np.where(length > 0, length, 1) for length in lengths]
    slack = (A.rhs - A.matrix @ x) / lengths[1]
    off = np.concatenate([pull, (E.matrix @ x - E.rhs) / lengths[0], np.minimum(slack, 0)])
    off = np.concatenate([off, np.where(force > 0, slack, 0)])
    weights = [np.abs(nu) * lengths[0], force * lengths[1]]
    return np.abs(off).max() / np.concatenate([np.abs(x / D), np.abs(D * c), *weights]).max()


def run(
    kind: type[StepMethod], forms: Sequence[Form], H: np.ndarray, c: np.ndarray
) -> tuple[StepMethod, Step]:
    method, which = kind(forms), np.arange(len(forms))
    assert not [kind.refuses(f) for f in forms if kind.refuses(f)]
    assert not method.factor(which, H).any()
    step = method.solve(which, c)
    assert not step.failed.any()
    return method, step
