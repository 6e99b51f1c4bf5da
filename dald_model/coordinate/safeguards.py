r"""Default stopping condition of each sequence, and the proof that one sweep is safe.

A consensus row has two ends, so the three-block counter-example to ADMM of Chen, He, Ye and Yuan
(2016) cannot be written as a consensus model, and one sweep a multiplier update is safe on every
graph in every order. Let each edge have an earlier end with side a and a later end with side b, in
the order of a sweep that solves everybody once, and :math:`w = 2\rho^2` fixed. In a sweep

* the earlier end balances :math:`\mu + w(a^+ - b) = \mu^+ + w(b^+ - b)`,
* the later end balances :math:`\mu + w(a^+ - b^+) = \mu^+`, the dual step being 1.

Subdifferentials are monotone, so against a saddle point :math:`(x^*, \mu^*)`, summed over all,

.. math::
    0 \le -\sum_e \langle \mu^+ - \mu^*, a^+ - b^+ \rangle + w \langle b^+ - b, a^+ - a^* \rangle,

and with :math:`\mu^+ - \mu = w(a^+ - b^+)` this says that

.. math::
    V = \sum_e \tfrac1w |\mu - \mu^*|^2 + w |b - b^*|^2, \qquad
    V^+ \le V - \sum_e w |a^+ - b|^2,

the estimate of two-block ADMM, edge by edge. Bredies, Chenchene and Naldi (2024), "Graph and
distributed extensions of the Douglas-Rachford method", have it as a splitting method.
``tests/coordinate/test_safety.py`` checks it. A dual step above 1 is covered for two blocks only.
"""

from __future__ import annotations

import math
import warnings

from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method
from dald_model.coordinate.stopping import FixedBudget, ShrinkingTolerance, Stopping
from dald_model.errors import SequenceWarning


def default_stopping(membership: Membership, method: Method) -> Stopping:
    """The stopping condition that goes with a sequence when the user names none.

    (B2) for every full cycle, with a tolerance that starts at 1 and shrinks by 3 % an update. One
    sweep an update is safe, too (see the module), but slower where objectives have kinks, and a
    tolerance that shrinks faster than the outer loop converges holds it up. Measured on 48 random
    graphs with odd cycles, 3 to 12 clients, to 1e-6 within 2,000 rounds, seven kinds of problems:
    this solved all 336; one sweep solved 332 and took 1.4 times the rounds on absolute losses and
    on linear programs and 1.1 times on l1 logistic regression (geometric means); a factor of 0.9
    took 0.7 times on the first two, but 4 times on the third (3 of 26 solved). Least squares,
    plain, constrained or ill-conditioned, and lasso are alike to 3 %. On eight bipartite graphs
    this solved all 56, one sweep 55, a factor of 0.9 48. Before, against a factor of 0.9: two to
    five sweeps an update took 1.4 to 3.8 times the rounds, (B3) 1.4 to 2.1, proximal terms 1.0 to
    2.6, and edge copies, a server for each edge so that there are two blocks, 1.7 to 6.

    A partial cycle gets loops enough for everybody to have had a turn on average, and the full
    one.
    """
    sequence = membership.sequence
    if sequence.per_loop is not None:
        return FixedBudget(1 + math.ceil(len(membership.bound.network) / sequence.per_loop))
    if method.dual_step > 1 and not membership.bound.network.is_two_block:
        return ShrinkingTolerance()
    return ShrinkingTolerance(start=1.0, factor=0.97)


def warn_if_unsafe(membership: Membership, stopping: Stopping, method: Method) -> None:
    r"""Warn of a dual step above 1 with few sweeps, where a sweep is not two-block ADMM.

    One sweep converges for steps below :math:`(1 + \sqrt 5)/2` where it is two-block (Glowinski
    1984). In natural order a ring of five diverges from 1.28 on, of seven from 1.19, of fifteen
    from 1.08, one of four from 1.51; in any order a triangle does from 1.56 (equal quadratic
    clients; the least diverging step on a grid of 0.01).

    Warns
    -----
    SequenceWarning
    """
    few = isinstance(stopping, FixedBudget)
    network = membership.bound.network
    if few and method.dual_step > 1 and not network.is_two_block:
        warnings.warn(
            f"the dual step {method.dual_step:g} with {stopping} on {membership.sequence} may "
            "diverge: a step above 1 is covered by theory only where a sweep is two-block ADMM, "
            f"and this network has {len(network.levels)} levels and a cycle; take dual_step=1, the "
            "default stopping, or an order of two colours if the graph has one",
            SequenceWarning,
            stacklevel=4,
        )
