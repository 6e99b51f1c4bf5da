r"""Skeleton: what is nonlinear in a client, canonicalised by cvxpy once for all clients alike.

A client's objective and constraints are cut where they become affine,

.. math:: f(x) = s(y_1, \dots, y_k), \qquad y_j = F_j x + f_j,

so that s, over plain variables y, holds no data but the numbers that multiply nonlinear parts.
Clients whose s is the same share its canonical form, whatever their data.
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.atoms.affine.binary_operators import DivExpression
from cvxpy.constraints.constraint import Constraint
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality

from dald_model.compile.recognition import Canonical, Structure, recognise
from dald_model.compile.structure import Walk, attributed, attributes, cut, numeric, parts_of, root
from dald_model.declare.client import Client

CONES = {
    "zero": "ZeroConeT",
    "nonneg": "NonnegativeConeT",
    "soc": "SecondOrderConeT",
    "psd": "PSDTriangleConeT",
    "exp": "ExponentialConeT",
    "pow": "PowerConeT",
    "genpow": "GenPowerConeT",
}
"""Our word for a cone -> Clarabel's type."""
KEPT = 64
"""How many sets of numbers a skeleton keeps its canonical form for."""


class Skeleton:
    """The canonical form of s, and the way back to dual values.

    Raises ``cp.DCPError`` where s is not DCP although the client is: its curvature rests on the
    sign of an affine part. Such a client is cut as a whole.
    """

    def __init__(self, client: Client, *, whole: bool = False) -> None:
        given = cut(client, whole=whole)
        if not given.pieces:
            raise cp.SolverError("a client without objective and constraints has no cone program")
        self._values = given.numbers
        self.variables = [cp.Variable(piece.shape) for piece in given.pieces]
        self.stated: list[Any] = []
        try:
            self.problem, self.parameters = self._build(client, whole, free=not whole)
            is_free = self.problem.is_dpp()
        except ValueError:  # an atom that wants to see its numbers, as matrix_frac does
            is_free = False
        if not is_free:
            self.problem, self.parameters = self._build(client, whole, free=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how cvxpy would solve s does not matter: nobody does
            found: tuple[Any, Any, Any] = self.problem.get_problem_data(
                cp.CLARABEL,
                solver_opts={},
            )
        self._data, self._chain, self._inverse = found
        # Of the user's, inside of atoms; by value, since the skeleton outlives them
        ours = {p.id for p in self.parameters}
        self._users = {
            p.id: np.array(p.value) for p in self.problem.parameters() if p.id not in ours
        }
        self._known: dict[bytes, tuple[Canonical, Structure]] = {}

    def _build(self, client: Client, whole: bool, free: bool) -> tuple[cp.Problem, list[Any]]:
        """The problem of s; numbers are Parameters if ``free``."""
        pieces = iter(self.variables)
        values = iter(self._values)
        parameters: list[cp.Parameter] = []
        walk = Walk([], [], whole)

        def copied(expression: Any) -> Any:
            if walk.is_piece(expression):
                return next(pieces)
            if walk.is_square(expression):
                return root(expression)[0] * cp.sum_squares(next(pieces))
            if expression.is_constant():
                return _fixed(expression)
            weighted = walk.weighted(expression)
            if weighted is not None:
                value, inner = next(values), weighted[1]
                factor = _parameter(value) if free else cp.Constant(value)
                parameters.extend([factor] if isinstance(factor, cp.Parameter) else [])
                if isinstance(expression, DivExpression):
                    return cp.multiply(factor, copied(inner))
                rest = copied(inner)
                return expression.copy([rest if a is inner else factor for a in expression.args])
            return expression.copy([copied(arg) for arg in expression.args])

        cost = copied(client.cost)
        rules = [_rebuilt(rule, [copied(p) for p in parts_of(rule)]) for rule in client.constraints]
        self.stated = list(rules)
        for variable in attributed(client):
            rules.append(cp.Variable(variable.shape, **attributes(variable)) == next(pieces))
        return cp.Problem(cp.Minimize(cost), rules), parameters

    def of(self, numbers: list[np.ndarray]) -> tuple[Canonical, Structure]:
        """The canonical form with these numbers in place of those it was made from."""
        key = b"".join(value.tobytes() for value in numbers)
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            problem = self._canonical(numbers)
            before = next(iter(self._known.values()), None)
            structure = _reused(problem, before) or recognise(problem)
            self._known[key] = problem, structure
        return self._known[key]

    def accepts(self, numbers: list[np.ndarray]) -> bool:
        """Whether the skeleton can take these numbers."""
        return bool(self.parameters) or _same(numbers, self._values)

    def _canonical(self, values: list[np.ndarray]) -> Canonical:
        program = self._data["param_prob"]
        given = dict(self._users)
        given |= {p.id: v for p, v in zip(self.parameters, values, strict=bool(self.parameters))}
        curved = program.P is not None
        *square, q, d, A, b = program.apply_parameters(given or None, quad_obj=curved)
        self.height = b.size
        columns = program.var_id_to_col
        own = np.concatenate(
            [columns[v.id] + np.arange(v.size) if v.id in columns else [] for v in self.variables]
        ).astype(int)
        rest = np.setdiff1d(np.arange(q.size), own)
        order = np.concatenate([own, rest])
        P = sp.csc_array(square[0] if curved else (q.size, q.size))[order][:, order]
        problem = Canonical(
            sp.csc_array(P),
            q[order],
            float(np.ravel(d)[0]) if np.size(d) else 0.0,
            sp.csr_array(-A)[:, order],
            np.asarray(b, float),
            *_cones(self._data["dims"]),
            own.size,
            np.arange(b.size),
        )
        return _renamed(problem)

    def duals(self, multipliers: np.ndarray, rows: np.ndarray) -> tuple[tuple[Any, ...], ...]:
        """Dual values of the client's constraints from those of some canonical rows, in order.

        For each constraint the values of its cvxpy ``dual_variables``.
        """
        full = np.zeros(self.height)
        full[rows] = multipliers
        seen = SimpleNamespace(
            status="Solved",
            x=np.zeros(self._data["c"].size),
            z=full,
            obj_val=0.0,
            iterations=0,
            solve_time=0.0,
        )
        found = self._chain.invert(seen, self._inverse).dual_vars
        for rule in self.stated:
            rule.save_dual_value(found[rule.id])
        return tuple(tuple(d.value for d in rule.dual_variables) for rule in self.stated)


def _fixed(constant: Any) -> Any:
    """A constant by value; the user's own expression where no Parameter of his is in it."""
    if not constant.parameters():
        return constant
    value = numeric(constant)
    return cp.psd_wrap(value) if constant.is_psd() else cp.Constant(value)


def _parameter(value: np.ndarray) -> cp.Parameter:
    nonneg = bool((value >= 0).all())
    nonpos = not nonneg and bool((value <= 0).all())
    return cp.Parameter(value.shape, nonneg=nonneg, nonpos=nonpos, value=value)


def _same(one: list[np.ndarray], two: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def _rebuilt(rule: Constraint, parts: list[Any]) -> Any:
    if isinstance(rule, Inequality):
        return parts[0] <= 0 if len(parts) == 1 else parts[0] <= parts[1]
    if isinstance(rule, Equality):
        return parts[0] == 0 if len(parts) == 1 else parts[0] == parts[1]
    return type(rule)(*parts, *rule.get_data()[:-1])  # the last is the id of the original


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
    arguments += [(CONES[k], arg) for k, _, arg in sizes if k not in ("zero", "nonneg")]
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
    place = {row: at for at, row in enumerate(kept)}
    cones = [(kind, place[at], size) for kind, at, size in problem.cones if at in place]
    zeros = sum(kind == "zero" for kind, _, _ in cones)
    arguments = [(k, zeros if k == CONES["zero"] else size) for k, size in problem.arguments]
    return problem._replace(
        A=problem.A[kept],
        b=problem.b[kept],
        cones=cones,
        arguments=tuple((k, size) for k, size in arguments if (k, size) != (CONES["zero"], 0)),
        rows=problem.rows[kept],
    )


def _reused(problem: Canonical, before: tuple[Canonical, Structure] | None) -> Structure | None:
    """The structure found before if only positive numbers in the objective are others."""
    if before is None:
        return None
    known, structure = before
    pairs: list[tuple[Any, Any]] = [(problem.A, known.A), (problem.P.sign(), known.P.sign())]
    alike = np.array_equal(np.sign(problem.q), np.sign(known.q))
    alike &= np.array_equal(problem.b, known.b)
    return structure if alike and all((a != b).nnz == 0 for a, b in pairs) else None
