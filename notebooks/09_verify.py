# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Is it right? Verifying, and what a failed verification looks like
#
# After this notebook you can read a verification line by line, tell an answer that is wrong from
# one that is another optimum, and say from the failing lines what to do next: go on, tighten, take
# another method, or mend the model.
#
# The status "optimal" is a claim of the run about itself. `result.verify()` checks it in two ways
# that do not depend on the run: a certificate, which bounds the optimum from below by one small
# solve per client, and the all-in-one problem, solved by plain cvxpy.
#
# ## A passed one
#
# Four hospitals, whose rows ship with the package, share a risk score whose weights are not
# negative and add up to one at most; each keeps an intercept of its own.

# %%
import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm
from dald_model.datasets import load_hospitals, standardised_together
from dald_model.models import robust_consensus
from dald_model.models.hospitals import consensus_classifier

model = consensus_classifier(standardised_together(load_hospitals()))
result = model.solve()
check = result.verify()
check

# %% [markdown]
# | row | comparison | measured by |
# |---|---|---|
# | objective gap | the objective with the all-in-one optimum | the cost of consensus |
# | in plain sight | the same two values | the larger of them |
# | gap to the bound | the objective with what multipliers prove | the cost of consensus |
# | reported value | `result.value` with cvxpy's objective at the values | the same |
# | constraint violation | each constraint at the values | its change over the lengths |
# | consensus violation | copies that should be equal | the lengths |
# | multipliers, dual values | gains from a small move at these prices | the slopes of the clients |
# | ... distance | our values with the all-in-one solver's | informational |
#
# The *cost of consensus* is the increase of all objectives that agreement causes, and a *length* is
# the distance from the answer to the minimiser of a single hospital. `certificate` is a lower bound
# from client solves alone, so no place needs all rows. The figure shows each row beside its
# tolerance:

# %%
check.plot()

# %% [markdown]
# ## Failed: the run was too short
#
# Three rounds, without acceleration. The status says that a limit ended it, and the lines say how
# far off it is: the clients do not agree, and the prices do not balance.

# %%
short = model.solve(max_rounds=3, acceleration=None)
print(short.status, "after", short.rounds, "rounds")
bad = short.verify()
assert not bad.ok
bad

# %% [markdown]
# `failures` has the lines as objects, for a script, and `diagnose()` what to type next. Going on
# from where it ended costs only the rounds that were missing:

# %%
print([row.check for row in bad.failures])
print(short.diagnose())

# %%
longer = model.solve(start=short)
print(longer.status, "after", longer.rounds, "more rounds;", longer.verify().ok)

# %% [markdown]
# ## Failed: "optimal" by tolerances that were too generous
#
# The residuals are to meet a tolerance of 0.3, which is not much. The run has to prove a gap as
# well, and goes on until it does, but to no more than was asked for:

# %%
generous = model.solve(eps_pri=0.3, eps_dual=0.3, acceleration=None)
print(generous.status, "after", generous.rounds, "rounds")
print(generous.verify())

# %% [markdown]
# ## Failed: a method that rests elsewhere
#
# FedProx comes to rest where the clients still differ. It does not say "optimal" but "settled", and
# the verification says by how much the hospitals disagree. No tolerance will mend that: with the
# multipliers it is `dm.FedADMM` or `dm.DALD`.

# %%
ridge = dm.Model("a score by least squares")
w = cp.Variable(12, name="w")
for name, one in standardised_together(load_hospitals()).items():
    A = np.column_stack([np.ones(len(one.target)), one.features])
    ridge.client(name, cp.sum_squares(A @ w - one.target) / 920 + cp.sum_squares(w) / 400)
prox = ridge.solve(algorithm=dm.FedProx(alpha=5.0))
print(prox.status, "-", prox.detail)
print(prox.verify())

# %% [markdown]
# ## Not failed: another optimum
#
# Two of three numbers may be anything between 1 and 2, at the same cost. The all-in-one solver
# takes one point and DALD another: the distance is informational, not a failure.

# %%
flat = dm.Model("a flat valley")
x = cp.Variable(2, name="x")
flat.client("left", cp.sum(cp.abs(x - 1)))
flat.client("right", cp.sum(cp.abs(x - 2)))
flat.topology(nx.path_graph(["left", "right"]))
print(flat.solve().verify())

# %% [markdown]
# ## Not failed, but another problem: a Parameter that moved
#
# A result remembers the values of the Parameters that it was solved with, and the verification is
# of that problem:

# %%
limit = cp.Parameter(nonneg=True, value=1.0, name="limit")
capped = dm.Model("capped")
y = cp.Variable(2, name="y")
capped.client("one", cp.sum_squares(y - 2), [cp.sum(y) <= limit])
capped.client("two", cp.sum_squares(y + 1))
before = capped.solve()
limit.value = 0.2
print(before.verify())

# %% [markdown]
# ## No optimum at all
#
# Statuses such as "infeasible" have nothing to compare. They are claims, too, and the verification
# asks the all-in-one problem whether it agrees:

# %%
limit.value = 1.0
capped.client("three", cp.sum_squares(y), [cp.sum(y) >= 3])
nothing = capped.solve()
print(nothing.status, "-", nothing.detail)
print(nothing.verify())

# %% [markdown]
# ## One witness only
#
# The all-in-one solve is the witness that does not scale, and in a federation nobody could run it.
# `result.certificate()` is the other alone, and `solve(gap=...)` ends a run as soon as so much is
# certified:

# %%
enough = model.solve(gap=1e-4)
print(enough.status, "after", enough.rounds, "rounds instead of", result.rounds)
enough.certificate()

# %% [markdown]
# ## When it is not convex
#
# A robust loss is not convex. A client that says so (`nonconvex=True`, with the extra `nonconvex`)
# ends "stationary": no small move lowers the objective. Five meters read one quantity, and a fifth
# of the readings is wrong. The verification checks the first-order conditions of the whole problem,
# and solves it from other starts:

# %%
robust = robust_consensus.model()
fitted = robust.solve()
fitted.verify()

# %% [markdown]
# Here all starts lead to one point. Not so with two minima, of which the run took the nearer one.
# The verification passes, since the point is stationary, and its note says that there is a lower
# one:

# %%
x = cp.Variable(name="x", value=1.5)
valleys = dm.Model("two minima")
valleys.client("a", cp.power(x, 4) - 2 * cp.square(x), nonconvex=True)
valleys.client("b", 0.2 * x)
valleys.solve().verify()

# %% [markdown]
# Several starts find it, and `runs` keeps where each of them led:

# %%
x.value = 1.5
best = valleys.solve(starts=9)
print(round(best.value, 4), [round(run.value, 4) for run in best.runs])

# %% [markdown]
# ## Exercise
#
# 1. How many rounds does `dm.ConsensusADMM()` need on the hospitals until `verify().ok` is true
#    with the default tolerances? Bisect `max_rounds`, or use `callback=`.
# 2. Give the client "switzerland" a wrong sign in its objective. Which line of which witness says
#    so, and can any line say so if both witnesses read the same model? What, then, does a
#    verification prove?
# 3. Take the flat valley and add `0.01 * cp.sum_squares(x)` to one of its clients. What becomes of
#    the solution distance?
