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
# # One framework, every classical algorithm
#
# Section V-B of the paper: proximal, gradient, Newton, stochastic, federated, ADMM and
# block-coordinate methods are DALD under particular choices of the multipliers $\mu$, the
# penalties $\rho$, the coordination and the solver layer. So one declared model runs under all of
# them, `explain` says which choices make each, and `dm.compare` puts them side by side. After this
# notebook you can run the method that you know on your own model, beside the others, and say where
# it rests and why. (Which methods no such choice gives, and why: `help("dald_model.algorithms")`.)
#
# Ten clinics share one logistic regression with a ridge term on scikit-learn's breast cancer data
# (569 tumours, 30 measurements, standardised, and an intercept). To make it hard, the tumours are
# dealt with label skew: a Dirichlet distribution of concentration 0.5 over the clinics.

# %%
from itertools import pairwise

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import dald_model as dm

raw = load_breast_cancer()
A = (raw.data - raw.data.mean(axis=0)) / raw.data.std(axis=0)
A = np.column_stack([A, np.ones(len(A))])
b = np.where(raw.target == 1, 1.0, -1.0)
N = len(b)

deals = {
    "even": dm.partition.even(N, 10, seed=0),
    "Dirichlet 0.5": dm.partition.dirichlet(b, 10, 0.5, seed=0, smallest=5),
    "one label each": dm.partition.label_skew(b, 10, labels_per_client=1, seed=0),
}
pd.DataFrame(
    {
        name: {
            "rows, least and most": f"{min(map(len, parts))} - {max(map(len, parts))}",
            "heterogeneity (0 is even)": round(dm.partition.heterogeneity(b, parts), 3),
        }
        for name, parts in deals.items()
    }
).T


# %%
def declared(parts):
    """Ten clinics with one vector w, and w."""
    w = cp.Variable(A.shape[1], name="w")
    model = dm.Model("ten clinics")
    for number, rows in enumerate(parts):
        loss = cp.sum(cp.logistic(cp.multiply(-b[rows], A[rows] @ w))) / N
        model.client(number, loss + 1e-2 / len(parts) * cp.sum_squares(w))
    return model, w


model, w = declared(deals["Dirichlet 0.5"])
model

# %% [markdown]
# ## What makes an algorithm
#
# Three of them, in the paper's terms:

# %%
for algorithm in (dm.FedProx(alpha=200.0), dm.GradientDescent(step=1.0), dm.ConsensusADMM()):
    print(algorithm.explain(), "\n")

# %% [markdown]
# ## Side by side
#
# The gap is that of the all-in-one objective at the value the server has, to the optimum that plain
# cvxpy finds, in units of what agreeing costs the clients; `MB sent` counts 8 bytes for every
# number that a client or the server sends of its values or gradients (not the Hessians that
# Newton's server needs). Steps are safe ones: `1 / L`,
# with `L` the largest eigenvalue of the Hessian of the sum.

# %%
L = np.linalg.eigvalsh(A.T @ A / N / 4).max() + 2e-2


def accuracy(at):
    """Share of the tumours that the shared vector gets right."""
    return float(np.mean((A @ at[w]) * b > 0))


comparison = dm.compare(
    model,
    {
        "gradient descent": dm.GradientDescent(1 / L),
        "Newton": dm.NewtonMethod(),
        "mini-batch GD, 3 of 10": dm.MiniBatchGradientDescent(3 / L, k=3),
        "FedAvg, 5 local steps": dm.FedAvg(10 / L, count=5),
        "FedAvg, 5 local steps, 3 of 10": dm.FedAvg(10 / L, count=5, k=3),
        "FedProx": dm.FedProx(alpha=200.0),
        "SCAFFOLD, 5 local steps": dm.SCAFFOLD(count=5),
        "FedADMM, 5 of 10": dm.FedADMM(penalty=0.01, k=5),
        "ADMM": dm.ConsensusADMM(),
        "DALD": dm.DALD(),
        "DALD, 5 gradient steps": {
            "algorithm": dm.DALD(),
            "solver": dm.solvers.GradientSteps(1.0, count=5),
            "stopping": dm.FixedBudget(1),
            "rho": 0.2,
            "acceleration": None,
        },
    },
    metrics={"accuracy": accuracy},
    max_rounds=400,
)
comparison

# %%
comparison.plot()

# %% [markdown]
# With all clinics in every round FedAvg and FedProx come to rest, and are reported "settled", at a
# point that is not the optimum: the clinics' data differ, so the optimal multipliers are not zero.
# The same proximal steps *with*
# the multiplier update (15) are Fed-DALD-CC, and reach it. The stochastic methods run every round
# and answer with the last: with a constant step they stay in a neighbourhood.
#
# SCAFFOLD and FedADMM are FedAvg and FedProx with multipliers, and go on to the optimum.
#
# ## Rows count once
#
# McMahan's FedAvg weighs each client by its number of rows, and its losses are *means* over rows.
# The losses here are sums, divided by the number of all rows, so they count their rows already.
# With the weights as well they count twice, and the method rests elsewhere:

# %%
count = {name: len(rows) for name, rows in enumerate(deals["Dirichlet 0.5"])}
once = dm.compare(
    model,
    {
        "sums, equal weights": dm.FedAvg(10 / L),
        "sums, weights by rows: twice": dm.FedAvg(10 / L, weights=count),
    },
    max_rounds=300,
)
print("rows of a clinic:", *count.values())
once.frame[["gap"]].map("{:.0e}".format)

# %% [markdown]
# ## Heterogeneity
#
# How far FedProx rests from the optimum depends on how unlike the clinics are; DALD does not care:

# %%
rows = {}
for name, parts in deals.items():
    model, w = declared(parts)
    methods = {"FedProx": dm.FedProx(alpha=200.0), "DALD": dm.DALD()}
    found = dm.compare(model, methods, max_rounds=1000)
    rows[name] = {
        "heterogeneity": round(dm.partition.heterogeneity(b, parts), 3),
        "FedProx rests at a gap of": f"{found.frame.gap['FedProx']:.1e}",
        "DALD ends at": f"{found.frame.gap['DALD']:.1e}",
        "DALD, rounds": found.frame.rounds["DALD"],
    }
pd.DataFrame(rows).T

# %% [markdown]
# ## Without a server
#
# Decentralised gradient descent (57) mixes neighbours' values; with a constant step it stops short
# of the optimum, in proportion to the step; with steps that fall (Nedic and Ozdaglar 2009) it goes
# on slowly, and EXTRA, DGD with multipliers, goes on with a constant one. DALD-DC on the same
# ring:

# %%
model, w = declared(deals["Dirichlet 0.5"])
model.topology(nx.cycle_graph(10))
peers = dm.compare(
    model,
    {
        "DGD, step 4": dm.DGD(4.0),
        "DGD, step 1": dm.DGD(1.0),
        "DGD, steps that fall": dm.DGD(lambda k: 4 * (10 / (k + 9)) ** 0.6),
        "EXTRA": dm.EXTRA(),
        "DGD asynchronous, 5 wake": dm.AsynchronousDGD(1.0, k=5),
        "DALD": dm.DALD(),
    },
    max_rounds=600,
)
peers

# %% [markdown]
# ## The inexact solver layer
#
# The clients need not be minimised exactly: some local steps from where they stand will do
# (Section V-B.3). Then the column `slack` of the history is condition (29), how far the clients are
# from their minima, and the run is not over before that, too, is within the tolerances.

# %%
model.topology(None)
result = model.solve(
    solver=dm.solvers.NewtonSteps(count=1), stopping=dm.FixedBudget(1), max_rounds=1000
)
print(result.status, result.rounds, result.verify().ok)
result.history[["primal_scaled", "dual_scaled", "slack"]].iloc[[0, 1, 5, 10, -1]]

# %% [markdown]
# ## Coupled blocks
#
# Block-coordinate methods minimise one function of several blocks. A coupling by a squared norm is
# a consensus with a penalty and no multipliers: $\|A_1 x_1 + A_2 x_2 - y\|^2$ is
# `A1 @ x1 == y - A2 @ x2` with `rho=1`.

# %%
rng = np.random.default_rng(0)
A1, A2, y = rng.normal(size=(20, 4)), rng.normal(size=(20, 3)), rng.normal(size=20)
x1, x2 = cp.Variable(4, name="x1"), cp.Variable(3, name="x2")
blocks = dm.Model("two blocks")
blocks.client("first", cp.norm1(x1))
blocks.client("second", cp.sum_squares(x2), [x2 >= 0])
blocks.consensus(A1 @ x1 == y - A2 @ x2)

whole = cp.Problem(
    cp.Minimize(cp.norm1(x1) + cp.sum_squares(x2) + cp.sum_squares(A1 @ x1 + A2 @ x2 - y)),
    [x2 >= 0],
)
whole.solve(solver="CLARABEL")
exact = np.concatenate([x1.value, x2.value])
step = float(1 / (2 * max(np.linalg.norm(A1, 2) ** 2, np.linalg.norm(A2, 2) ** 2 + 1)))
rows = {}
for algorithm in (dm.BCD(), dm.BCPG(step), dm.BCPG(step, count=5)):
    result = blocks.solve(algorithm=algorithm, rho=1.0, max_rounds=5000)
    apart = np.abs(np.concatenate([result[x1], result[x2]]) - exact).max()
    rows[f"{type(algorithm).__name__}, W = {getattr(algorithm, 'count', 'to the minimum')}"] = {
        "status": str(result.status),
        "rounds": result.rounds,
        "distance from cvxpy's answer": f"{apart:.0e}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# ## The geometry of it: Figure 4 of the paper
#
# Left, (a): one client. Each proximal step (35) minimises $f$ plus a parabola around the last
# point, a function that lies above $f$ and touches it there. Right, (b): two clients that differ.
# FedProx is the same step for each, around their average. It comes to rest, the paper's point I,
# where the slopes cancel at points that are apart. With the multipliers the clients go on from
# there to the optimum H, where they agree and $\mu$ is the slope that is left to each.

# %%
alpha, line = 2.0, np.linspace(-3.2, 3.4, 400)
losses = {
    "one": lambda v: 0.2 * v**2 + np.log(1 + np.exp(2 - 3 * v)),
    "two": lambda v: 0.4 * (v + 2) ** 2,
}
u = cp.Variable(name="u")
costs = {
    "one": 0.2 * cp.square(u) + cp.logistic(2 - 3 * u),
    "two": 0.4 * cp.square(u + 2),
}


def points(names, algorithm, rounds, **options):
    """The clients' points of each round of a run."""
    model = dm.Model("geometry")
    for name in names:
        model.client(name, costs[name])
    if len(names) == 1:
        model.consensus(cp.Variable(name="server") == u)
    else:
        model.topology("server")
    seen = {name: lambda at, name=name: float(at.copies(u)[name]) for name in names}
    run = model.solve(
        algorithm=algorithm, metrics=seen, max_rounds=rounds, acceleration=None, **options
    )
    return run.history[list(names)].to_numpy()


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
f, short = losses["one"], 0.3
path = points(["one"], dm.ProximalPoint(short), 12)[:, 0]
middle = np.linspace(-0.7, 2.2, 200)
left.plot(middle, f(middle), "k", label="f")
for last, new in pairwise([0.0, *path[:3]]):
    near = middle[np.abs(middle - new) < 1.0]
    left.plot(near, f(near) + (near - last) ** 2 / (2 * short), "--", linewidth=1)
left.plot([0.0, *path], f(np.array([0.0, *path])), "o", color="tab:red", label="proximal steps")
left.set(xlabel="x", ylabel="f(x)")
left.legend()
both = ["one", "two"]
prox = points(both, dm.FedProx(alpha), 60)
dald = points(both, dm.DALD(), 200, rho=float(np.sqrt(1 / (2 * alpha))))
for at, name in enumerate(both):
    right.plot(line, losses[name](line), "k" if at == 0 else "gray", label=f"f of client {name}")
    for run, color, label in ((prox, "tab:orange", "FedProx"), (dald, "tab:blue", "DALD")):
        mine = run[:, at]
        right.plot(mine, losses[name](mine), ".-", color=color, label=None if at else label)
        right.plot(mine[-1], losses[name](mine[-1]), "s", color=color)
right.text(prox[-1, 0], f(prox[-1, 0]), "  I")
right.text(dald[-1, 0], f(dald[-1, 0]), "H  ", horizontalalignment="right")
right.set(xlabel="value of the client's copy", ylim=(-0.2, 8))
right.legend()
plt.show()

# %% [markdown]
# ## Exercise
#
# 1. FedProx rests farther from the optimum the larger `alpha` is. Draw the gap against `alpha`,
#    and the rounds. Which `alpha` would you publish?
# 2. Give half of the clinics an absolute loss. Which methods refuse the model, in which words, and
#    what do `dm.DGD` and `dm.StochasticGradientDescent` want before they take it?
# 3. Write an algorithm of your own: an object with `open(compiled)`, which returns a
#    `dald_model.coordinate.method.Method`, and `explain()`. The shortest to copy is `dm.FedDyn`.
