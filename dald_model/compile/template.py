r"""Template of a client: what is nonlinear in it, canonicalised by cvxpy once for all alike.

It is the cone program of s, see :mod:`dald_model.compile.structure`. Clients whose s is the same
share it, whatever their data.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from dald_model._cvxpy import CanonicalProblem
from dald_model.compile.elimination import without_bounded
from dald_model.compile.recognition import CONES, LINEAR, Canonical, Structure, recognise
from dald_model.compile.structure import SplitClient
from dald_model.compile.tangent import Tangent, joined, parted
from dald_model.compile.way_back import WayBack

TEMPLATES_KEPT = 64
"""How many canonical forms a template keeps, and how many instantiators a lowering."""
OFTEN = 3
"""Sets of numbers from which on it pays to know how the form depends on them."""
ONE = 2
"""The same of a single number: to know it takes no more than the form of another."""


class Template:
    """The cone program of s, and the way back to dual values.

    Raises ``cp.DCPError`` where s is not DCP although the client is: its curvature rests on the
    sign of an affine part. Such a client is split as a whole.
    """

    def __init__(self, client: SplitClient) -> None:
        if not client.pieces:
            raise cp.SolverError("a client without objective and constraints has no cone program")
        self._values = client.numbers
        starts = np.cumsum([0, *(int(np.prod(shape)) for shape in client.shapes)])
        spans = [np.arange(starts[at], starts[at + 1]) for at in client.offsets]
        self._fixed = frozenset(np.concatenate([np.zeros(0, int), *spans]).tolist())
        self.variables = [cp.Variable(shape) for shape in client.shapes]
        try:
            self._build(client, free=True)
            is_free = self.problem.is_dpp()
        except ValueError:  # an atom that wants to see its numbers, as matrix_frac does
            is_free = False
        if not is_free:
            self._build(client, free=False)
        self._canonical = CanonicalProblem(self.problem)
        self.way_back = WayBack(self._canonical, self.stated)
        # Of the user's, inside of atoms; by value, since the template outlives them
        ours = {p.id for p in self.parameters}
        self._users = {
            p.id: np.array(p.value) for p in self.problem.parameters() if p.id not in ours
        }
        self._forget()

    def anew(self) -> Template:
        """What cvxpy made, without what was learned since: so no model depends on another."""
        found = copy(self)
        found._forget()
        return found

    def _forget(self) -> None:
        self._known: dict[bytes, tuple[Canonical, Structure]] = {}
        self._base: tuple[list[np.ndarray], Canonical, Structure] | None = None
        self._tangent: Tangent | None = None
        self._asked = 0

    def _build(self, client: SplitClient, *, free: bool) -> None:
        """Make the problem of s; numbers are Parameters if ``free``."""
        self.parameters = [_parameter(value) for value in client.numbers] if free else []
        factors = self.parameters or [cp.Constant(value) for value in client.numbers]
        cost = client.cost.build(self.variables, factors)
        self.stated = [rule.build(self.variables, factors) for rule in client.rules]
        more = [rule.build(self.variables, factors) for rule in client.attributed]
        self.problem = cp.Problem(cp.Minimize(cost), [*self.stated, *more])

    def of(self, numbers: list[np.ndarray]) -> tuple[Canonical, Structure]:
        """The canonical form with these numbers in place of those it was made from."""
        key = b"".join([value.tobytes() for value in numbers])
        if key not in self._known:
            if len(self._known) >= TEMPLATES_KEPT:
                self._known.clear()
            self._known[key] = self._near(numbers) or self._made(numbers)
        return self._known[key]

    def _made(self, numbers: list[np.ndarray]) -> tuple[Canonical, Structure]:
        """The same, by cvxpy."""
        problem = self._instance(numbers)
        structure = _reused(problem, self._base and self._base[1:]) or recognise(problem)
        if self._base is None:
            self._base = numbers, problem, structure
        return problem, structure

    def _near(self, numbers: list[np.ndarray]) -> tuple[Canonical, Structure] | None:
        """The same, by those that are known; None where that will not do."""
        self._asked += 1
        if self._base is None or not self.parameters:
            return None
        first, problem, structure = self._base
        often = ONE if joined(first).size == 1 else OFTEN
        if self._asked < often:
            return None
        if self._asked == often:
            self._tangent = Tangent.of(
                lambda vector: self._instance(parted(vector, first)), problem, joined(first)
            )
        found = self._tangent and self._tangent(joined(numbers))
        return (found, structure) if found else None

    def accepts(self, numbers: list[np.ndarray]) -> bool:
        """Whether the template can take these numbers."""
        return bool(self.parameters) or _same(numbers, self._values)

    def _instance(self, values: list[np.ndarray]) -> Canonical:
        given = dict(self._users)
        given |= {p.id: v for p, v in zip(self.parameters, values, strict=bool(self.parameters))}
        square, q, d, A, b = self._canonical.numbers(given)
        own = np.concatenate([self._canonical.columns(v) for v in self.variables])
        rest = np.setdiff1d(np.arange(q.size), own)
        order = np.concatenate([own, rest])
        P = sp.csc_array((q.size, q.size) if square is None else square, copy=True)
        A = sp.csr_array(-A)
        if (order[1:] < order[:-1]).any():
            P, A = sp.csc_array(P[order][:, order]), A[:, order]
        problem = Canonical(
            P,
            q[order],
            float(np.ravel(d)[0]) if np.size(d) else 0.0,
            A,
            np.asarray(b, float),
            *_cones(self._canonical.dims),
            own.size,
            sp.eye_array(b.size, format="csr"),
            self._fixed,
        )
        return without_bounded(_renamed(problem))


def _parameter(value: np.ndarray) -> cp.Parameter:
    nonneg = bool((value >= 0).all())
    nonpos = not nonneg and bool((value <= 0).all())
    return cp.Parameter(value.shape, nonneg=nonneg, nonpos=nonpos, value=value)


def _same(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def _cones(dims: Any) -> tuple[list[tuple[str, int, int]], tuple[tuple[str, Any], ...]]:
    """The cones in the order of Clarabel's rows, and as Clarabel takes them."""
    sizes: list[tuple[str, int, Any]] = [("zero", 1, None)] * dims.zero
    sizes += [("nonneg", 1, None)] * dims.nonneg
    sizes += [("soc", size, size) for size in dims.soc]
    sizes += [("psd", side * (side + 1) // 2, side) for side in dims.psd]
    sizes += [("exp", 3, None)] * dims.exp
    sizes += [("pow", 3, alpha) for alpha in dims.p3d]
    sizes += [("genpow", len(alpha) + 1, alpha) for alpha in dims.pnd]
    at, cones = 0, []
    for kind, size, _ in sizes:
        cones.append((kind, at, size))
        at += size
    linear = [("zero", dims.zero), ("nonneg", dims.nonneg)]
    arguments = [(CONES[kind], size) for kind, size in linear if size]
    arguments += [(CONES[k], arg) for k, _, arg in sizes if k not in LINEAR]
    return cones, tuple(arguments)


def _renamed(problem: Canonical) -> Canonical:
    """Without auxiliary variables that an equality sets to a multiple of one other variable.

    cvxpy makes them for squares of nonlinear parts and for attributes such as ``nonneg``.
    """
    A, own = problem.A, problem.own
    target = np.arange(problem.q.size)
    scale, taken = np.ones(target.size), set()
    for kind, at, _ in problem.cones:
        part = slice(A.indptr[at], A.indptr[at + 1])
        if kind != "zero" or part.stop - part.start != 2 or problem.b[at]:
            continue
        (one, two), (a, b) = A.indices[part].tolist(), A.data[part].tolist()
        if one < two:
            one, two, a, b = two, one, b, a
        # `one` is the later column; what others were set to may not itself be set
        if (
            one >= own
            and a
            and b
            and one not in taken
            and two not in taken
            and target[one] == one
            and target[two] == two
        ):
            target[one], scale[one] = two, -b / a
            taken.add(two)
    if not taken:
        return problem
    n = target.size
    change = sp.csc_array((scale, (np.arange(n), target)), shape=(n, n))
    kept = np.flatnonzero(target == np.arange(n))
    change = change[:, kept]
    A = sp.csr_array(problem.A @ change)
    A.data[np.abs(A.data) < 1e-15] = 0.0
    A.eliminate_zeros()
    P = sp.csc_array(change.T @ problem.P @ change)
    return _without_empty(problem._replace(P=P, q=change.T @ problem.q, A=A))


def _without_empty(problem: Canonical) -> Canonical:
    """Without equality rows that hold nothing."""
    counts = np.diff(problem.A.indptr)
    firsts = {at for kind, at, _ in problem.cones if kind == "zero"}
    kept = [r for r in range(problem.b.size) if r not in firsts or counts[r] or problem.b[r]]
    return problem.with_rows(sp.csr_array(sp.eye_array(problem.b.size))[kept])


def _reused(problem: Canonical, before: tuple[Canonical, Structure] | None) -> Structure | None:
    """The structure found before if only positive numbers in the objective are others."""
    if before is None:
        return None
    known, structure = before
    pairs: list[tuple[Any, Any]] = [(problem.A, known.A), (problem.P.sign(), known.P.sign())]
    alike = np.array_equal(np.sign(problem.q), np.sign(known.q))
    alike &= np.array_equal(problem.b, known.b)
    return structure if alike and all((a != b).nnz == 0 for a, b in pairs) else None
