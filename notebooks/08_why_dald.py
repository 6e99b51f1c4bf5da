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
# # Why DALD, and when not: do inner loops pay?
#
# After this notebook you can say what an inner loop costs, in rounds and in numbers sent, on models
# like yours, and choose `stopping=` with a reason.
#
# Algorithms 2 and 3 of the paper minimise the augmented Lagrangian in an **inner loop**, several
# sweeps over the clients at fixed prices, before prices (multipliers) move once. With **one sweep**
# per price update, `dm.FixedBudget(1)`, they are known by other names: consensus ADMM with a
# server, and D-ADMM of Mota, Xavier, Aguiar and Püschel (2013) peer to peer. What more the inner
# loop brings is a question to be measured. A round is one sweep here: every client is solved once
# and sends its values once. Prices cost no message, as both ends of an edge know them. So rounds
# are what counts.
#
# ## First: it is the same algorithm
#
# Ten clinics share a logistic regression, scikit-learn's breast cancer data dealt with label skew.

# %%
import importlib

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes

import dald_model as dm

cancer, diabetes = load_breast_cancer(), load_diabetes()
A = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0)
A = np.column_stack([A, np.ones(len(A))])
b = np.where(cancer.target == 1, 1.0, -1.0)
D = (diabetes.data - diabetes.data.mean(axis=0)) / diabetes.data.std(axis=0)
t = (diabetes.target - diabetes.target.mean()) / diabetes.target.std()


def logistic():
    """Ten clinics, as unlike as label skew makes them."""
    w, model = cp.Variable(A.shape[1], name="w"), dm.Model("logistic, skewed")
    for name, r in enumerate(dm.partition.dirichlet(b, 10, 0.5, seed=0, smallest=5)):
        loss = cp.sum(cp.logistic(cp.multiply(-b[r], A[r] @ w))) / len(b)
        model.client(name, loss + 1e-3 * cp.sum_squares(w))
    return model


def lasso():
    """Ten clinics with rows dealt evenly."""
    w, model = cp.Variable(10, name="w"), dm.Model("lasso")
    for name, r in enumerate(dm.partition.even(len(t), 10, seed=0)):
        model.client(name, cp.sum_squares(D[r] @ w - t[r]) / len(t) + 0.01 * cp.norm1(w))
    return model


def over(model, graph):
    """The same model over this graph, or a server."""
    model.topology(graph)
    return model


PLAIN = {"acceleration": None}
ring = over(logistic(), nx.cycle_graph(10))
one_sweep = ring.solve(stopping=dm.FixedBudget(1), **PLAIN)
d_admm = ring.solve(algorithm=dm.DADMM())
print("DALD-DC, one sweep an update:", one_sweep.rounds, "rounds;  D-ADMM:", d_admm.rounds)
print("the same values:", np.array_equal(one_sweep["w"], d_admm["w"]))

# %% [markdown]
# ## Inner loops on real models
#
# Two models on some graphs, and six of the gallery, without acceleration, all from the
# default start and with the default rule for $\rho$: two and four sweeps per update, and
# inner loops that end by a tolerance that shrinks, (B2), which is the default where nothing
# accelerates. A run that needs more than 600 rounds counts as 600.

# %%
graphs = {"star": "server", "ring": nx.cycle_graph(10), "path": nx.path_graph(10)}
models = {
    f"{make.__name__}, {said}": over(make(), graphs[said])
    for make, where in ((logistic, ("star", "ring")), (lasso, graphs))
    for said in where
}
gallery = "market", "portfolio", "supply_chain", "predictive_control", "clustered", "personalised"
for name in gallery:
    models[name] = importlib.import_module(f"dald_model.models.{name}").model()

ways = {
    "1 sweep": dm.FixedBudget(1),
    "2 sweeps": dm.FixedBudget(2),
    "4 sweeps": dm.FixedBudget(4),
    "(B2)": dm.ShrinkingTolerance(start=1.0, factor=0.97),
}
MOST = 600


def rounds_of(model, **options):
    """Rounds until both residuals are below 1e-6, MOST where they are not by then."""
    result = model.solve(max_rounds=MOST, **options)
    return result.rounds if result.status == "optimal" else MOST


rounds = pd.DataFrame(
    {
        name: {said: rounds_of(model, stopping=way, **PLAIN) for said, way in ways.items()}
        for name, model in models.items()
    }
).T
rounds["1 sweep, accelerated"] = [rounds_of(model) for model in models.values()]
rounds

# %% [markdown]
# A round sends every client's values along its edges, so the numbers sent are the rounds times the
# edges' entries, once in each direction. Acceleration adds what `explain()` lists, on most
# models nothing. Per run, in thousands of numbers:

# %%
entries = pd.Series({name: 2 * model.compile().size for name, model in models.items()})
(rounds.mul(entries, axis=0) / 1000).round(1)

# %%
relative = rounds.div(rounds["1 sweep"], axis=0)
figure, axis = plt.subplots(figsize=(8.5, 4.2), layout="constrained")
at = np.arange(len(relative))
for (said, column), marker in zip(relative.items(), "o^vsX", strict=True):
    if said != "1 sweep":
        axis.semilogy(at, column, marker, label=said, markersize=7)
axis.axhline(1.0, color="gray", label="1 sweep, plain (ADMM)")
axis.set_xticks(at, relative.index, rotation=35, ha="right")
axis.set_yticks([0.1, 0.2, 0.5, 1, 2, 5], ["0.1", "0.2", "0.5", "1", "2", "5"])
axis.set_ylabel("rounds, beside one sweep an update")
axis.grid(alpha=0.3, axis="y")
figure.legend(ncols=5, fontsize="small", loc="outside upper center")
plt.show()

mean = np.exp(np.log(relative).mean())
mean.round(2).to_frame("rounds beside one sweep, geometric mean")

# %% [markdown]
# **On none of these models does a fixed number of more sweeps pay.** Two cost 1.4 times the rounds
# of one and four nearly twice. (B2) is level with one sweep, as most of its inner loops end after
# one; on one of these models it saves a few per cent, and on the market it costs half as much
# again. Acceleration pays, and it needs one sweep per
# update: outer loops of several sweeps, more or less as a tolerance has it, are not one map that
# could be accelerated.
#
# ## Is it the penalty?
#
# More sweeps make an outer loop a better step of the method of multipliers, which likes large
# $\rho$. So each number of sweeps should be judged at the $\rho$ that suits it best. Fixed
# penalties, as multiples of the natural ones:

# %%
star = over(logistic(), "server")
natural = dm.ResidualBalancing().init(star.compile())
factors = [0.5, 1.0, 2.0]
grid = {
    said: [rounds_of(star, rho=f * natural, stopping=way, **PLAIN) for f in factors]
    for said, way in ways.items()
}
figure, axis = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
sizes = 11, 9, 7, 4  # where curves meet, all of them are seen
for (said, found), style, size in zip(grid.items(), ("s-", "^--", "v-.", "o:"), sizes, strict=True):
    axis.loglog(factors, found, style, label=said, markersize=size, markerfacecolor="none")
axis.set(xlabel="ρ over the natural one", ylabel="rounds")
axis.set_xticks(factors, [f"{f:g}" for f in factors])
axis.set_yticks([100, 200, 400, 600], ["100", "200", "400", "600"])
axis.minorticks_off()
axis.legend(fontsize="small")
plt.show()
pd.DataFrame({said: {"best of all ρ": min(found)} for said, found in grid.items()}).T

# %% [markdown]
# The larger $\rho$, the smaller the difference, as then all are slow for another reason: the
# clients hardly move from where the others are. At the best $\rho$ of each more sweeps gain
# nothing either.
#
# ## Where an inner loop does pay
#
# **When neighbours are solved side by side.** One sweep after the other, colour by colour, is what
# makes one sweep per update safe (proof in `dald_model/coordinate/convergence.py`). If all clients
# are to answer at once, each with the others' values of before (Jacobi), prices that follow every
# sweep overshoot on sparse graphs, and inner loops are what makes it converge at all:

# %%
import warnings

jacobi = {}
for said, graph in (("ring", graphs["ring"]), ("path", graphs["path"])):
    model = over(lasso(), graph)
    for way in ("1 sweep", "2 sweeps", "4 sweeps"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dm.SequenceWarning)  # which says what is shown here
            run = model.solve(
                sequence=dm.Sequence.jacobi(), stopping=ways[way], max_rounds=MOST, **PLAIN
            )
        jacobi[said, way] = {"status": str(run.status), "rounds": run.rounds}
    jacobi[said, "colour by colour, 1 sweep"] = {
        "status": "optimal",
        "rounds": int(rounds.loc[f"lasso, {said}", "1 sweep"]),
    }
pd.DataFrame(jacobi).T

# %% [markdown]
# Even so, colour by colour is better here: two colours are two turns per round.
#
# **When the loop is inside a client.** An inner loop without messages costs no round. Clients that
# cannot be minimised exactly take some local steps per turn, and more of them save rounds until
# they are as good as exact ones:

# %%
L = np.linalg.eigvalsh(A.T @ A / len(b) / 4).max() + 2e-3
step = float(1 / (L + 2 * natural.max() ** 2))
layers = {f"{n} gradient steps a turn": dm.solvers.GradientSteps(step, n) for n in (30, 100)}
layers["1 Newton step a turn"] = dm.solvers.NewtonSteps(1)
layers["exact"] = None
local = {}
for said, layer in layers.items():
    run = star.solve(
        solver=layer, stopping=dm.FixedBudget(1), rho=natural, max_rounds=1000, **PLAIN
    )
    local[said] = {"status": str(run.status), "rounds": run.rounds}
pd.DataFrame(local).T

# %% [markdown]
# ## So
#
# | your model | take |
# |---|---|
# | anything, clients minimised exactly | the default: one sweep per update, accelerated |
# | nobody may see all prices | `acceleration=None, stopping=dm.FixedBudget(1)`: ADMM |
# | peer to peer, and a name that reviewers know | `algorithm=dm.DADMM()`: the same iterates |
# | all clients at once on a sparse graph | `dm.Sequence.jacobi()` with some sweeps per update |
# | clients too hard to minimise | `solver=` with many local steps, one sweep per update |
# | a theorem that asks for exact inner loops, as the paper's Theorem 2 | (B1) to (B3) |
#
# DALD is the name of all of them here: what the framework gives is the freedom of order, graph,
# clients and solver layer, with one implementation of each. Its inner loop is not what makes it
# fast.
#
# ## Exercise
#
# 1. Put your own model in `models` and run the first table again. Is it the first on which more
#    sweeps pay? Then it would be welcome as an issue.
# 2. Of the complete graph (`nx.complete_graph(10)`) a round colour by colour takes ten turns and a
#    Jacobi round one. Which order needs the fewest turns on the lasso? Does it need inner loops?
# 3. Where does `dm.GrowingBudget()`, (B3), lie in the picture?
