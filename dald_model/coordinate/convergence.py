r"""Default stopping condition of each sequence, and the proof that one sweep is safe.

A consensus row has two ends, so the three-block counter-example to ADMM of Chen, He, Ye and Yuan
(2016) cannot be written as a consensus model, and one sweep per multiplier update is safe on every
graph in every order, with every dual step :math:`0 < \sigma \le 1`.

**Conditions.** Objectives are closed and convex, and every turn minimises its client's augmented
Lagrangian exactly. There is a saddle point :math:`(x^*, \mu^*)`, an optimum and multipliers for it.
From some round on the penalties and the order stay, every client is solved once a sweep, no two
neighbours side by side, and multipliers follow every sweep. So the proof says nothing of inner
loops of several sweeps (Theorem 2 and its conditions do), of partial or repeated cycles, of absent
clients or lost messages; and a run with inexact clients or changing penalties has its guarantee
only from where these have come to rest.

**Descent.** Let each edge have an earlier end with side a and a later end with side b, in the order
of the sweep, :math:`w = 2\rho^2`, and :math:`r = a^+ - b^+`. With
:math:`\lambda = \mu + w r`, in a sweep

* the earlier end balances :math:`\mu + w(a^+ - b) = \lambda + w(b^+ - b)`,
* the later end balances :math:`\mu + w(a^+ - b^+) = \lambda`,

and :math:`\mu^+ = \mu + \sigma w r`. Subdifferentials are monotone, so against the saddle point,
summed over all clients and edges, where :math:`a^* = b^*`,

.. math::
    0 \le -\sum_e \big(\langle \lambda - \mu^*, r \rangle
    + w \langle b^+ - b, a^+ - a^* \rangle\big). \tag{1}

With :math:`\lambda - \mu^* = (\mu - \mu^*) + w r` and :math:`a^+ - a^* = (b^+ - b^*) + r` twice (1)
bounds what the squares in

.. math::
    V = \sum_e \frac{|\mu - \mu^*|^2}{\sigma w} + w |b - b^*|^2

change by, and completing the square of :math:`r + b^+ - b = a^+ - b` leaves

.. math::
    V^+ \le V - \sum_e w |a^+ - b|^2 - (1 - \sigma) \sum_e w |r|^2. \tag{2}

With :math:`\sigma = 1` it is the estimate of two-block ADMM, edge by edge. Bredies, Chenchene and
Naldi (2024), "Graph and distributed extensions of the Douglas-Rachford method", have that as a
splitting method. What (2) gives away is what (1) does: twice the sum of
:math:`\langle \partial f_i(x_i^+) - \partial f_i(x_i^*), x_i^+ - x_i^* \rangle`.

**Residuals.** By (2) :math:`\mu` and b are bounded and :math:`a^+ - b \to 0`; the residuals are
:math:`\mathcal C = r` and :math:`\mathcal D = b^+ - b = (a^+ - b) - r`. Where :math:`\sigma < 1`,
:math:`r \to 0` by (2) as well, and both vanish. Where :math:`\sigma = 1` let
:math:`s = a^+ + \mu / w`. By the update :math:`s = b^+ + \mu^+ / w`, too, and so from one sweep to
the next s changes by :math:`a^+ - b \to 0`. A client minimises

.. math::
    f_i(x_i) + \sum_{\text{later end}} \tfrac w2 |b - s|^2
    + \sum_{\text{earlier end}} \tfrac w2 |a - (b_{\text{old}} - \mu / w)|^2,

and its sides at the minimum are nonexpansive in the targets s and :math:`b_{old} - \mu / w`,
weighted by w. Now go backwards through the order. The last client is the later end of all of its
edges: its targets s come to rest, so its sides do, :math:`b^+ - b \to 0`, hence
:math:`r = (a^+ - b) - (b^+ - b) \to 0` and :math:`\mu^+ - \mu = w r \to 0` on its edges. Of any
client before, the targets s come to rest, and so do the others, which lie on edges to clients that
were gone through already; so its sides come to rest, and r and :math:`\mathcal D` vanish on all
edges of which it is the later end. Every edge has a later end: :math:`\mathcal C \to 0` and
:math:`\mathcal D \to 0`.

**Optimum.** The clients' balances and convexity, as in (1), give
:math:`F(x^+) \le F(x^*) - \sum_e (\langle \lambda, r \rangle + w \langle b^+ - b, a^+ - a^*
\rangle) \to F(x^*)`, and the saddle point :math:`F(x^+) \ge F(x^*) - \sum_e \langle \mu^*, r
\rangle`; so the objective converges to the optimum. The same with any other points of the clients'
sets in place of :math:`x^*` shows that limit points of :math:`\mu` are multipliers. Where x stays
bounded, a limit point of :math:`(x, \mu)` is a saddle point itself; V measured from it has a
subsequence to zero and falls, so :math:`\mu` and all sides converge.

``tests/coordinate/test_lyapunov.py`` checks (2), with equality where (1) is known. A dual step
above 1 is covered for two blocks only.
"""

from __future__ import annotations

import math
import warnings

from dald_model.coordinate.membership import Membership
from dald_model.coordinate.method import Method, kept
from dald_model.coordinate.stopping import FixedBudget, ShrinkingTolerance, Stopping
from dald_model.errors import SequenceWarning, users_line
from dald_model.schedule.participation import Participation


def default_stopping(membership: Membership, method: Method) -> Stopping:
    """The stopping condition that goes with a sequence, if none is named and nothing accelerates.

    (B2) for every full cycle, with a tolerance that starts at 1 and shrinks by 3 % per update. One
    sweep per update is safe, too (see the module), but slower where objectives have kinks, and a
    tolerance that shrinks faster than the outer loop converges holds it up. Measured on 48 random
    graphs with odd cycles, 3 to 12 clients, to 1e-6 within 2,000 rounds, seven kinds of problems:
    this solved all 336; one sweep solved 332 and took 1.4 times the rounds on absolute losses and
    on linear programs and 1.1 times on l1 logistic regression (geometric means); a factor of 0.9
    took 0.7 times on the first two, but 4 times on the third (3 of 26 solved). Least squares,
    plain, constrained or ill-conditioned, and lasso are alike to 3 %.

    A partial cycle gets loops enough for everybody to have had a turn on average, and the full
    one.
    """
    sequence = membership.sequence
    if sequence.per_loop is not None:
        return FixedBudget(1 + math.ceil(len(membership.bound.network) / sequence.per_loop))
    if method.dual_step > 1 and not membership.bound.network.is_two_block:
        return ShrinkingTolerance()
    return ShrinkingTolerance(start=1.0, factor=0.97)


def check_order(membership: Membership, stopping: Stopping, method: Method) -> None:
    """Warn of an order with which multipliers may run away, or never move.

    Warns
    -----
    SequenceWarning
    """
    if method.update is kept:
        return
    _warn_of_participation(membership)
    if isinstance(stopping, FixedBudget):
        _warn_of_long_steps(membership, stopping, method)
        if membership.sequence is not method.sequence:  # an algorithm's own has the steps for it
            _warn_of_jacobi(membership, stopping)


def _warn_of_participation(membership: Membership) -> None:
    """Warn where one client at a time takes part although two agree peer to peer."""
    sequence, compiled = membership.sequence, membership.compiled
    if sequence.parts or not isinstance(sequence.strategy, Participation):
        return
    peers = [edge for edge in compiled.edges if not set(edge.ends) & set(compiled.servers)]
    if sequence.strategy.k == 1 and peers:
        warnings.warn(
            f"{sequence} draws one client a round, but {peers[0].tail!r} and {peers[0].head!r} "
            "agree peer to peer: their multiplier moves only in rounds in which both take part, so "
            "never, and without acceleration the run does not converge; take "
            "dm.Sequence.participating(2) or more, or dm.Sequence.random(1), which closes each "
            "outer loop by a full cycle",
            SequenceWarning,
            stacklevel=users_line(),
        )


def _warn_of_long_steps(membership: Membership, stopping: Stopping, method: Method) -> None:
    r"""Warn of a dual step above 1 with few sweeps, where a sweep is not two-block ADMM.

    One sweep converges for steps below :math:`(1 + \sqrt 5)/2` where it is two-block (Glowinski
    1984). In natural order a ring of five diverges from 1.28 on, of seven from 1.19, of fifteen
    from 1.08, one of four from 1.51; in any order a triangle does from 1.56 (equal quadratic
    clients; the least diverging step on a grid of 0.01).
    """
    network = membership.bound.network
    if method.dual_step > 1 and not network.is_two_block:
        warnings.warn(
            f"the dual step {method.dual_step:g} with {stopping} on {membership.sequence} may "
            "diverge: a step above 1 is covered by theory only where a sweep is two-block ADMM, "
            f"and this network has {len(network.levels)} levels and a cycle; take dual_step=1, the "
            "default stopping, or an order of two colours if the graph has one",
            SequenceWarning,
            stacklevel=users_line(),
        )


def _warn_of_jacobi(membership: Membership, stopping: Stopping) -> None:
    r"""Warn of neighbours that are solved side by side with few sweeps per update.

    The proof does not hold, as neither end is the later one: both answer to the other's last value.
    Two clients without curvature have :math:`r^+ = -r - 2\mu/w` and :math:`\mu^+ = \mu + w r^+`, of
    spectral radius :math:`1 + \sqrt 2 = 2.41`. An even number of sweeps takes the sign back, every
    odd one does not: with equal quadratic clients of curvature :math:`10^{-4} w` 21 sweeps an
    update have the radius 2.41 as well, on two clients, rings of four and stars.
    """
    if membership.sequence.is_jacobi and membership.compiled.edges:
        warnings.warn(
            f"{membership.sequence} with {stopping} may diverge: neighbours are solved side by "
            "side, each with the other's value of before, and multipliers that follow after few "
            "sweeps overshoot, on two clients by a factor of up to 2.41 an update; take an order "
            "such as dm.Sequence.natural(), or the default stopping",
            SequenceWarning,
            stacklevel=users_line(),
        )
