r"""Constraints that contradict each other, read from a Farkas proof.

With z such that :math:`A^\top z = 0` and :math:`b^\top z < 0`, rows relaxed to :math:`b + \delta`
stay infeasible while :math:`\delta^\top z < -b^\top z`: a constraint with multipliers
:math:`\lambda` misses :math:`-b^\top z / \|\lambda\|_1` at least in each of its entries.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import scipy.sparse as sp

from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import ConeProgram
from dald_model.compile.subproblem import Subproblem
from dald_model.declare.wording import short
from dald_model.solvers.exact.cone_certificates import infeasibility
from dald_model.text import counted
from dald_model.values import flat

CARRIED = 1e-3
"""Share of the largest multiplier from which on a row has part in a proof: an interior point leaves
multipliers of other rows at some 1e-6 of it."""
NAMED = 6
"""Constraints that a message names at most."""


def contradiction(
    compiled: Decomposition, cone: ConeProgram, z: np.ndarray, rows: Mapping[Hashable, slice]
) -> str:
    """The constraints that a proof rests on, by how much each misses; "" if they are not known.

    ``rows`` says where each client's rows lie in the program.
    """
    vertex = infeasibility(cone)  # of linear rows: it rests on as few as may be
    z = z if vertex is None else vertex
    sizes = np.abs(z) * np.sqrt(sp.csr_array(cone.rows).power(2).sum(axis=1))
    carried = np.where(sizes >= CARRIED * sizes.max(), z, 0.0)
    fall = -float(cone.rhs @ carried)
    found = []
    for name, part in rows.items():
        sub = compiled[name]
        if sub.form is None or not carried[part].any() or not sub.is_constrained:
            continue
        found += _of_client(compiled, sub, carried[part], fall)
    if not found:
        return ""
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"these contradict each other: {'; '.join(found[:NAMED])}{more}"


def _of_client(compiled: Decomposition, sub: Subproblem, z: np.ndarray, fall: float) -> list[str]:
    """The constraints of one client or coupling that have multipliers, and what each misses."""
    found, rules = [], compiled.stated(sub.name)
    for rule, duals in zip(rules, sub.cone_duals(z), strict=False):
        weight = sum(float(np.abs(flat(dual)).sum()) for dual in duals)
        if weight > 0:
            whose = f"{sub.client.kind} {sub.name!r}"
            if sub.name == compiled.holder:
                whose = counted(len(compiled.form.common.places), "client")
            found.append(f"{short(rule, 40)} of {whose} (misses by {fall / weight:.3g})")
    return found
