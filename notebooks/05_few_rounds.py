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
# # Few rounds
#
# In a federation a round costs seconds, whatever the computer. This notebook shows what the
# default `acceleration=dm.Hybrid()` does to their number, how it works, and where it does not
# help. After it you can say which acceleration your own model should have.
#
# First forty owners in a chain: a chain is the hardest graph, since information moves one client
# per round. Every owner has rows of its own scale.

# %%
import importlib

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm

OWNERS, SIZE = 40, 5


def chain(loss, spread=1.0):
    """Forty owners in a chain who share one vector; their data have other scales."""
    rng = np.random.default_rng(0)
    x = cp.Variable(SIZE, name="x")
    model = dm.Model("chain")
    for owner in range(OWNERS):
        A = rng.normal(size=(3 * SIZE, SIZE)) * 10 ** rng.uniform(-spread, spread)
        model.client(owner, *loss(A, A @ np.arange(SIZE) + rng.normal(size=3 * SIZE), x))
    model.topology(nx.path_graph(OWNERS))
    return model


def squares(A, b, x):
    """Least squares."""
    return cp.sum_squares(A @ x - b), []


MOST = 400
ways = {
    "plain": None,
    "Anderson": dm.Anderson(),
    "secant": dm.Secant(),
    "hybrid (default)": dm.Hybrid(),
}


def run_all(loss, **options):
    """All ways on one chain."""
    return {
        name: chain(loss, **options).solve(acceleration=way, max_rounds=MOST)
        for name, way in ways.items()
    }


runs = run_all(squares)
pd.DataFrame(
    {name: {"status": str(run.status), "rounds": run.rounds} for name, run in runs.items()}
).T


# %%
def curves(runs, title):
    """What is held against the tolerances, round by round."""
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for name, run in runs.items():
        worst = run.history[["primal_scaled", "dual_scaled"]].max(axis=1)
        line = axes.semilogy(worst.clip(lower=1e-12), label=name)[0]
        back = worst[run.history["proposal"].str.endswith("taken back")]
        axes.semilogy(back, "x", color=line.get_color())
    axes.set(title=title, xlabel="round", ylabel="larger scaled residual", ylim=(1e-9, None))
    axes.axhline(1e-6, color="grey", linewidth=0.8, linestyle=":")
    axes.legend(frameon=False)
    plt.close(figure)  # the cell shows what it returns; an open figure would show twice
    return figure


curves(runs, "Least squares on a chain of 40; crosses: taken back")
# %% [markdown]
# ## How the secant does it
#
# Client $i$ receives prices and its neighbours' values, and answers with a point. A coordinator
# that sees both knows the slope $\phi_i$ of the client's own objective at that point, because the
# client balances it against the prices. Two answers give a secant equation, and the response $S_i$
# of a convex client, in the metric of the penalties, is symmetric with eigenvalues between 0 (a
# hard constraint) and 1 (no curvature). Symmetric corrections of rank one learn it; smooth clients
# that share the same variables start from a common estimate. Then the coordinator solves
#
# $$
# \min_\xi \sum_i \phi_i^\top(\xi_i - \bar\xi_i)
# + \tfrac12 (\xi_i - \bar\xi_i)^\top (S_i^{-1} - I)(\xi_i - \bar\xi_i)
# \quad\text{s.t. all consensus constraints},
# $$
#
# and begins the next round at its solution and prices. A quadratic client of five entries is known
# after some six rounds, whatever the graph: that is why the chain above takes no longer than a
# star. The history says who proposed each round's beginning.

# %%
runs["hybrid (default)"].history[["primal_scaled", "dual_scaled", "proposal"]]

# %% [markdown]
# The answer is checked as any other is, against the all-in-one solve.

# %%
runs["hybrid (default)"].verify()

# %% [markdown]
# ## Curvature and kinks
#
# The response of a logistic client changes from point to point, and a client with absolute values
# has pieces: a model learned on one piece is wrong on the next. The safeguard then rejects
# proposals (crosses), and Anderson's mixing takes over.
#
# Where clients have kinks, or no curvature at all as linear programs, the default uses lower
# bounds. An answer $\bar\xi_i$ with slope $\phi_{ij}$ bounds a convex objective from below:
#
# $$ f_i(\xi_i) \ge f_i(\bar\xi_i) + \phi_{ij}^\top (\xi_i - \bar\xi_i), $$
#
# and the bound remains valid on both sides of a kink. The coordinator minimises the sum of the
# largest bounds of all clients plus a proximal term (a disaggregated proximal bundle method).
# Beside prices and answers it must see objectives, one number per client and round. The two methods
# alternate in turns of twelve rounds; the one that made more progress in its last turn continues.


# %%
def logistic(A, b, x):
    """Logistic loss of the signs, with a little ridge."""
    return cp.sum(cp.logistic(-cp.multiply(np.sign(b), A @ x))) + cp.sum_squares(x) / 100, []


def absolute(A, b, x):
    """Least absolute deviations."""
    return cp.norm1(A @ x - b), []


table = {}
for title, loss in (("logistic", logistic), ("absolute values", absolute)):
    runs = run_all(loss, spread=0.0)
    table |= {(title, name): [str(run.status), run.rounds] for name, run in runs.items()}
pd.DataFrame(table, index=["status", "rounds"]).T

# %%
curves(runs, "Absolute values on a chain of 40; crosses: taken back")
# %% [markdown]
# ## What holds a run back
#
# `result.diagnose()` reads the history and the last iterate: which entries are slowest, how their
# penalty compares with the natural one, what was not accelerated and why, how many rounds are left
# at the pace so far, and what to type next.

# %%
model = chain(squares)
result = model.solve(acceleration=None, rho=0.3, max_rounds=100)
print(result.diagnose())

# %%
result = model.solve(start=result, rho=dm.ResidualBalancing())
print(result.status, result.rounds)

# %% [markdown]
# ## Where sums of curvature may be shared
#
# `disclose="curvature"` selects an interior-point method with one iteration per round. It uses only
# sums over the clients, so a server may add them under secure aggregation. Quadratic clients are
# solved in the first round, other smooth ones by Newton's method. It costs bytes and privacy: the
# curvature of least squares is the Gram matrix of the owner's rows.

# %%
rows = []
for title, loss in (("least squares", squares), ("logistic", logistic)):
    chosen = {
        "plain": {"acceleration": None},
        "secant": {"acceleration": dm.Secant()},
        "curvature": {"disclose": "curvature"},
    }
    found = dm.compare(chain(loss, spread=0.0), chosen, max_rounds=MOST).frame
    rows.append(found[["status", "rounds", "sent", "revealed"]].assign(loss=title))
table = pd.concat(rows).set_index("loss", append=True).swaplevel()
table.assign(status=table.status.astype(str), sent=(table.sent / 1e3).map("{:.0f} kB".format))

# %% [markdown]
# Kinks and constraints, which answers reveal facet by facet, need no more rounds than smooth
# losses.

# %%
rows = []
for name in ("svm", "quantile", "minmax_fairness", "trend_filtering", "graphical_lasso"):
    given = importlib.import_module(f"dald_model.models.{name}").model()
    answers, curvature = given.solve(), given.solve(disclose="curvature")
    gap = abs(answers.value - curvature.value) / abs(answers.value)
    rows.append((name, answers.rounds, curvature.rounds, f"{gap:.0e}"))
pd.DataFrame(rows, columns=["model", "answers", "curvature", "values apart"]).set_index("model")

# %% [markdown]
# ## Cost and visibility
#
# `explain()` states them for the options that it is given. Clients send their objective, one
# number, and one place sees the prices and values of all edges. A server does so anyway. Peer to
# peer that is a coordinator, which the plain algorithm does not need; `dm.Anderson()` needs only a
# few sums over all edges, and `acceleration=None` nothing.

# %%
print(chain(squares).compile().explain())

# %% [markdown]
# ## Exercise
#
# Make the graph a star (`model.topology(None)`) and a ring. On which of the three
# does plain DALD need the fewest rounds, and by how much does that matter to the hybrid?
