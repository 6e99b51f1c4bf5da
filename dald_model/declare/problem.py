"""A cvxpy problem that is compiled alike whatever values its variables have."""

from __future__ import annotations

from typing import Any

import cvxpy as cp

from dald_model.values import unset


class Problem(cp.Problem):
    """A ``cp.Problem`` that can be solved again where its variables have values.

    cvxpy computes starting values for the auxiliary variables of some atoms when the variables
    have values, and fails at it: ``cp.cvar(x, 0.6)`` is a ``TypeError`` and ``cp.sum_largest(x,
    x.size)`` a ``ValueError`` in the second solve, since cvxpy 1.8. Only nonlinear programmes use
    these values, so they are taken away while cvxpy compiles.
    """

    def get_problem_data(self, *args: Any, **options: Any) -> Any:
        """See ``cp.Problem``."""
        with unset(self.variables()):
            return super().get_problem_data(*args, **options)
