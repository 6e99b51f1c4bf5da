"""Paths into cvxpy that its documentation does not promise, all in one file.

``tests/compile/test_cvxpy_private.py`` tries each of them and says what breaks here if it changes.
The bound on cvxpy in pyproject.toml is the newest version that it passed with; `make test-next`
tries the newest there is.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

# What every affine atom is derived from: tells `0 * log(x)`, which has a domain, from `0 * x`.
from cvxpy.atoms.affine.affine_atom import AffAtom

# The nodes of `x / 2` and `-x`; those of sums and products are public.
from cvxpy.atoms.affine.binary_operators import DivExpression

# The nodes of `cp.hstack`, `cp.concatenate`, `cp.diag` and, further down, `cp.vstack`.
from cvxpy.atoms.affine.concatenate import Concatenate
from cvxpy.atoms.affine.diag import diag_mat
from cvxpy.atoms.affine.hstack import Hstack

# The nodes of `Y[3]`, and of `Y[[0, 2]]` and others that numpy calls advanced.
from cvxpy.atoms.affine.index import index, special_index
from cvxpy.atoms.affine.promote import Promote

# What `cp.sum` makes.
from cvxpy.atoms.affine.sum import Sum
from cvxpy.atoms.affine.trace import Trace
from cvxpy.atoms.affine.unary_operators import NegExpression
from cvxpy.atoms.affine.upper_tri import upper_tri
from cvxpy.atoms.affine.vstack import Vstack

# What all atoms are derived from, with the domain of each.
from cvxpy.atoms.atom import Atom

# What atoms such as `cp.abs`, which work entry by entry, are derived from.
from cvxpy.atoms.elementwise.elementwise import Elementwise

# What `cp.suppfunc(x, constraints)(y)` makes: it cannot be copied from its arguments alone.
from cvxpy.atoms.suppfunc import SuppFuncAtom

# What `x <= y` and `x == y` make.
from cvxpy.constraints.nonpos import Inequality
from cvxpy.constraints.zero import Equality

# What numbers variables.
from cvxpy.lin_ops.lin_utils import get_id

# What an ordinary solve leaves in `problem.solver_stats`, and what `problem.unpack` takes.
from cvxpy.problems.problem import SolverStats
from cvxpy.reductions.solution import Solution

# Public as `cp.transforms.indicator`, but not annotated there.
from cvxpy.transforms.indicator import indicator

__all__ = [
    "INDEX",
    "PICKS",
    "STACKED",
    "AffAtom",
    "CanonicalProblem",
    "DivExpression",
    "Elementwise",
    "Equality",
    "Inequality",
    "NegExpression",
    "Promote",
    "SmoothProgram",
    "Sum",
    "arguments",
    "domain_of_atoms",
    "held",
    "inside",
    "is_affine_throughout",
    "is_approximated",
    "quad_forms",
    "record_solution",
    "twin",
    "value_of",
    "with_parts",
]


INDEX = (index, special_index)
"""Atoms that select entries of their argument."""
PICKS = (diag_mat, Trace, upper_tri)
"""Atoms that use some entries of their argument whatever is asked of them."""
STACKED = (Hstack, Vstack, Concatenate)
"""Atoms that have the entries of their arguments, each once."""
ENTRYWISE = (NegExpression, cp.AddExpression, cp.multiply, DivExpression, Elementwise)
"""Atoms of which an entry depends on the same entry of the arguments only."""
PRODUCTS = (cp.MulExpression, cp.multiply, DivExpression)
"""Atoms that multiply an argument by numbers."""


held = attrgetter("_value")
"""The very object that a leaf has its value in: of a Parameter declared sparse its property makes a
new one at every turn, and of any it takes ten times as long to ask for."""


class CanonicalProblem:
    """A problem as cvxpy hands it to Clarabel, and the way back to dual values.

    Attributes
    ----------
    dims : object
        The sizes of the cones ``zero``, ``nonneg``, ``soc``, ``psd``, ``exp``, ``p3d``, ``pnd``, in
        the order of the rows.
    height : int
        How many rows there are.
    """

    def __init__(self, problem: cp.Problem) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how cvxpy would solve it does not matter: nobody does
            found: Any = problem.get_problem_data(cp.CLARABEL, solver_opts={})
        data, self._chain, self._inverse = found
        self.dims = data["dims"]
        self._program, self._size, self.height = data["param_prob"], data["c"].size, data["b"].size

    def numbers(self, values: Mapping[int, np.ndarray]) -> tuple[Any, Any, Any, Any, Any]:
        r"""P, q, d, A and b of :math:`\tfrac12 v^\top P v + q^\top v + d` and :math:`A v + b`.

        P is None where nothing is quadratic. ``values`` are those of the Parameters, by id.
        """
        curved = self._program.P is not None
        *square, q, d, A, b = self._program.apply_parameters(values or None, quad_obj=curved)
        return square[0] if curved else None, q, d, A, b

    def columns(self, variable: cp.Variable) -> np.ndarray:
        """Where the entries of a variable lie in v; empty if it stands nowhere."""
        start = self._program.var_id_to_col.get(variable.id)
        return np.empty(0, int) if start is None else start + np.arange(variable.size)

    def duals(self, multipliers: np.ndarray) -> Mapping[int, Any]:
        """Dual values by constraint id, as ``save_dual_value`` takes them."""
        answer = SimpleNamespace(
            status="Solved",
            x=np.zeros(self._size),
            z=multipliers,
            obj_val=0.0,
            iterations=0,
            solve_time=0.0,
        )
        return self._chain.invert(answer, self._inverse).dual_vars


class SmoothProgram:
    """A DNLP problem as cvxpy hands it to solvers of non-linear programs, at its variables' values.

    Attributes
    ----------
    point : ndarray, shape (n,)
        The problem's variables, and those that cvxpy adds for kinks.
    objective : float
        As it is minimised.
    gradient : ndarray, shape (n,)
        Of the objective.
    jacobian : csr_array, shape (m, n)
        Of the constraints.
    rows : ndarray, shape (m,)
        The values of the constraints.
    bounds, row_bounds : pair of ndarray
        Of the variables and of the constraints.
    """

    def __init__(self, problem: cp.Problem) -> None:
        # cvxpy's own import of this takes longer than all else of it
        from cvxpy.reductions.solvers.nlp_solvers.nlp_solver import Oracles
        from cvxpy.reductions.solvers.nlp_solving_chain import _build_nlp_chain

        chain, _ = _build_nlp_chain(problem, "UNO", {})
        data, _ = chain.apply(problem)
        oracles = Oracles(data["_bounds"].new_problem, verbose=False, use_hessian=False)
        self.point = y = np.asarray(data["x0"], float)
        self.bounds, self.row_bounds = (data["lb"], data["ub"]), (data["cl"], data["cu"])
        self.objective = float(oracles.objective(y))
        self.gradient = np.array(oracles.gradient(y))
        self.rows = np.array(oracles.constraints(y)).reshape(-1)
        self.jacobian = sp.csr_array((self.rows.size, y.size))
        if self.rows.size:
            entries = np.array(oracles.jacobian(y)), oracles.jacobianstructure()
            self.jacobian = sp.csr_array(entries, shape=self.jacobian.shape)


def arguments(rule: cp.Constraint) -> list[Any]:
    """What a constraint was made from besides its expressions: all of its data but its id."""
    return rule.get_data()[:-1]


def is_affine_throughout(expression: Any) -> bool:
    """Whether all its atoms are affine: cvxpy calls zero times a logarithm affine as well."""
    return expression.is_affine() and all(issubclass(a, AffAtom) for a in expression.atoms())


def is_approximated(part: Any) -> bool:
    """Whether cvxpy gives solvers something else than an expression or a constraint says.

    It writes relative entropies of matrices by quadratures, which may be off by digits.
    """
    kinds = (cp.quantum_rel_entr, cp.RelEntrConeQuad, cp.OpRelEntrConeQuad)
    return isinstance(part, kinds) or any(map(is_approximated, part.args))


def value_of(expression: Any) -> Any:
    """The value of an expression whose Parameters all have one.

    For ``value`` cvxpy first goes through the whole expression to look for Parameters without.
    """
    return expression._value_impl()


def domain_of_atoms(expression: Any) -> list[cp.Constraint]:
    """Where an expression is defined, but for what its variables were declared to be.

    cvxpy's ``domain`` counts the attributes of variables in, such as PSD.
    """
    found, seen, nodes = [], set(), [expression]
    while nodes:
        node = nodes.pop()
        # An indicator is no atom, and infinite outside of its domain
        if id(node) not in seen and isinstance(node, Atom):
            seen.add(id(node))
            # Of sums of squares cvxpy compares a number with zero, dearer than all else here
            if not (isinstance(node, cp.quad_over_lin) and not node.args[1].variables()):
                found += node._domain()
            nodes += node.args
    return found


def quad_forms(part: Any) -> list[Any]:
    """The quadratic forms in an objective, an expression or a constraint, each once."""
    found, seen, nodes = [], set(), [part]
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, cp.QuadForm):
            found.append(node)
        nodes += inside(node)
    return found


def has_domain(expression: Any) -> bool:
    """Whether :func:`domain_of_atoms` is all of where an expression is finite: of no indicator."""
    if isinstance(expression, Atom):
        return all(has_domain(one) for one in expression.args)
    return not isinstance(expression, indicator)


def with_parts(part: Any, instead: Mapping[int, Any]) -> Any:
    """An expression or a constraint in which some parts, by ``id``, are others.

    As cvxpy's ``tree_copy``, but also where the part is a sum, and in the three atoms that hold
    more than their arguments: ``perspective``, ``indicator`` and support functions.
    """
    made = dict(instead)

    def remade(node: Any) -> Any:
        if id(node) not in made:
            made[id(node)] = _with_arguments(node, [remade(one) for one in inside(node)])
        return made[id(node)]

    return remade(part)


def twin(variable: cp.Variable, name: str) -> cp.Variable:
    """Another variable like one without a value: it takes cvxpy ten times as long to make one."""
    found = object.__new__(type(variable))
    vars(found).update(vars(variable), id=get_id(), _name=name)
    return found


def inside(node: Any) -> list[Any]:
    """The arguments of an atom, and the expressions that it holds besides."""
    held = [node.f, node.f_recession] if isinstance(node, cp.perspective) else []
    return [*node.args, *(one for one in held if one is not None)]


def _with_arguments(node: Any, parts: list[Any]) -> Any:
    """The node with other expressions in it, in the order of :func:`inside`."""
    if all(one is other for one, other in zip(parts, inside(node), strict=True)):
        return node
    if isinstance(node, cp.perspective):
        f, *recession = parts[len(node.args) :]
        return cp.perspective(f, parts[0], *recession)
    if isinstance(node, indicator):
        return indicator(parts, node.err_tol)
    if isinstance(node, SuppFuncAtom):
        return SuppFuncAtom(parts[0], node._parent)
    return node.copy(parts)


def record_solution(
    problem: cp.Problem, status: str, value: float, variables: Mapping[int, Any], **stats: Any
) -> None:
    """Set what an ordinary solve sets: status, value, variables' values and solver_stats."""
    problem.unpack(Solution(status, value, variables, {}, {}))
    problem._solver_stats = SolverStats("DALD", **stats)
