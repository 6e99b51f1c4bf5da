r"""Linear and quadratic programs with auxiliary variables, by the dual active-set method DAQP.

Losses written as an epigraph (quantiles, absolute values, hinges, the largest of affine functions)
and norms in constraints give cone programs over :math:`v = (x, y)` with linear rows only, whose
Hessian is singular in y. DAQP reaches their solutions by proximal steps

.. math::
    w_{k+1} = \arg\min_w \; \tfrac12 w^\top H w + h^\top w + \tfrac{\varepsilon}{2} |w - w_k|^2
    \quad\text{s.t. the rows}, \qquad v = \sigma D w,

a few, since each starts from the last working set, and so does the next turn. In the units D the
Hessian has ones on its diagonal where it has anything; an auxiliary variable has such units that
one step can take it as far as the rows that it stands in reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from dald_model.compile.form import LINEAR
from dald_model.compile.subproblem import Subproblem
from dald_model.solvers.base import Session
from dald_model.solvers.exact.daqp_program import DaqpProgram
from dald_model.solvers.exact.one_by_one import SequentialSession

LARGEST = 700
"""Columns of the cone program beyond which too many rounds are needed to pay for a new K.

Measured against a solve by Clarabel, quantiles with m = 100: with 600 columns a new K costs a half,
a far turn a third, a near one 1/23; with 700 a new K costs 1 and a far turn a half; with 900 the
first turn costs 4, a near one 1/14; with 1250 (m = 50) the first costs 50, a near one a third.
"""


class Polyhedral:
    """Linear rows and a convex quadratic over the client's and auxiliary variables."""

    name = "polyhedral"
    batches = False
    is_exact = False

    def refuses(self, subproblem: Subproblem) -> str:
        """See :class:`dald_model.solvers.base.Solver`."""
        form = subproblem.form
        if form is None:
            return "it could not be written as a cone program"
        if form.complete:  # does not need the cone program, which takes a while to make
            others = sorted({t.kind.name for t in form.terms if not t.kind.is_polyhedral})
            if others:
                return f"it has {' and '.join(others)} terms, which are not of linear rows"
            columns = form.size + sum(term.weight.size for term in form.terms)
            bounding = (form.equalities.matrix, form.inequalities.matrix)
            if not form.terms and not any(matrix.any() for matrix in bounding):
                return "it has no rows"
        else:
            others = sorted({kind for kind, _ in form.cone.cones} - set(LINEAR))
            if others:
                return f"its cone program has {' and '.join(others)} cones"
            columns = form.cone.linear.size
            if not form.cone.rows.count_nonzero():
                return "it has no rows"
        if columns > LARGEST:
            return f"its {columns} columns are more than {LARGEST}, too many for dense arrays"
        return ""

    def open(self, subproblems: Sequence[Subproblem]) -> Session:
        """See :class:`dald_model.solvers.base.Solver`; the clients may differ in every way."""
        return SequentialSession(subproblems, DaqpProgram)
