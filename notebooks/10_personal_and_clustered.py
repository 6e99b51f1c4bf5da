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
# # One model for all, one for each, and what lies between
#
# After this notebook you can declare a federation in which clients share as much of a model as they
# should: a shared part and a private one, models held near to each other, clusters that are found.
# And you can measure, on rows that were held out, which of them a client is served best by.
#
# Nothing new is needed for it. A `cp.Variable` that many clients use is shared, one that a single
# client uses is private, and `model.couple(objective=...)` makes two or more pay for their
# distance.
#
# ## Four hospitals
#
# Heart disease again, a score by least squares: eleven features on one scale, the target $+1$ (ill)
# or $-1$. The hospitals differ: in Zurich nearly everybody is ill, and in Budapest a third.

# %%
import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load_hospitals, standardised_together

hospitals = standardised_together(load_hospitals())
names = list(hospitals)
rng = np.random.default_rng(0)
train, held_out = {}, {}
for name, one in hospitals.items():
    A = np.column_stack([np.ones(len(one.target)), one.features])
    order = rng.permutation(len(A))
    # half of the rows are held out, and of the rest a hospital has forty at most
    half = len(A) // 2
    train[name] = A[order[:half][:40]], one.target[order[:half][:40]]
    held_out[name] = A[order[half:]], one.target[order[half:]]
pd.DataFrame(
    {
        name: {
            "rows to learn from": len(train[name][1]),
            "held out": len(held_out[name][1]),
            "of them ill": f"{np.mean(held_out[name][1] > 0):.0%}",
        }
        for name in names
    }
).T

# %% [markdown]
# ## The two ends: alone, and all together
#
# Alone is no federation. All together is one shared variable.

# %%
SIZE = A.shape[1]


def loss(name, w):
    """Mean squared error of a hospital's rows."""
    A, b = train[name]
    return cp.sum_squares(A @ w - b) / len(b)


def error(name, w):
    """Mean squared error on the rows held out."""
    A, b = held_out[name]
    return float(np.mean((A @ w - b) ** 2))


alone = {name: np.linalg.lstsq(*train[name])[0] for name in names}

together = dm.Model("one for all")
w = cp.Variable(SIZE, name="w")
for name in names:
    together.client(name, loss(name, w))
result = together.solve()
assert result.verify().ok
one_for_all = dict.fromkeys(names, result["w"])

# %% [markdown]
# ## Shared weights, an intercept of one's own
#
# How ill the patients of a hospital are on average is its own affair; what the features say of them
# is everybody's. `mine` is used by one client, so it never leaves it.

# %%
shared = dm.Model("own intercepts")
w = cp.Variable(SIZE - 1, name="w")
for name in names:
    mine = cp.Variable(1, name=f"intercept at {name}")
    shared.client(name, loss(name, cp.hstack([mine, w])))
result = shared.solve()
assert result.verify().ok
own_intercept = {n: np.concatenate([result[f"intercept at {n}"], result["w"]]) for n in names}
shared

# %% [markdown]
# ## Near to what all share: from alone to together
#
# Each hospital has a model of its own and pays $\lambda$ for the squared distance from a shared one
# (Hanzely and Richtárik 2020). $\lambda$ is a `cp.Parameter`, so the whole path costs one
# compilation, and each solve starts from the last.

# %%
weight = cp.Parameter(nonneg=True, name="lambda")
soft = dm.Model("soft consensus")
centre = cp.Variable(SIZE, name="centre")
for name in names:
    mine = cp.Variable(SIZE, name=f"w of {name}")
    soft.client(name, loss(name, mine) + weight * cp.sum_squares(mine - centre))

path, models, last, rounds = {}, {}, None, []
for value in np.geomspace(1e-3, 10, 9):
    weight.value = value
    last = soft.solve(start=last)
    assert last.status == "optimal"
    models[value] = {name: last[f"w of {name}"] for name in names}
    path[value] = {name: error(name, models[value][name]) for name in names}
    rounds.append(last.rounds)
print("rounds along the path:", *rounds)

# %%
curve = pd.DataFrame(path).T
figure, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for axis, name in zip(axes, names, strict=True):
    axis.semilogx(curve.index, curve[name], "o-", label="near to all")
    for said, found, style in (
        ("alone", alone, ":"),
        ("together", one_for_all, "--"),
        ("own intercept", own_intercept, "-."),
    ):
        axis.axhline(error(name, found[name]), linestyle=style, color="gray", label=said)
    axis.set_title(name, fontsize=10)
    axis.set_xlabel("λ")
axes[0].set_ylabel("error on held-out rows")
axes[0].legend(fontsize="x-small")
plt.show()

# %% [markdown]
# Left in each picture a hospital is alone, right it is together with all. Switzerland, whose
# patients are unlike the others', is served best by a model of its own that is held near the
# others' loosely; the three others by what all share and an intercept of their own. (To choose
# between them on these rows would need others again to judge by.)

# %%
best = float(curve.mean(axis=1).idxmin())
table = pd.DataFrame(
    {
        "alone": {n: error(n, alone[n]) for n in names},
        "together": {n: error(n, one_for_all[n]) for n in names},
        "own intercept": {n: error(n, own_intercept[n]) for n in names},
        f"near to all, λ = {best:.2g}": {n: error(n, models[best][n]) for n in names},
    }
)
pd.concat([table, table.mean().to_frame("mean").T]).round(3)

# %% [markdown]
# ## Clusters that nobody knew of
#
# Eight clients with ten rows each; the even ones follow one rule, the odd ones another, and nobody
# knows. Each pair pays $\lambda \|w_i - w_j\|$, *not* squared: a norm has a kink at zero, which
# pulls models together until they are equal (Hocking et al. 2011). No centre and no number of
# clusters is given. The gallery has it, `models/clustered.py`; written out it is six lines.

# %%
from dald_model.models.clustered import two_kinds

parts = two_kinds()
weight = cp.Parameter(nonneg=True, name="lambda")
cluster = dm.Model("clusters")
w = {i: cp.Variable(3, name=f"w{i}") for i in parts}
for i, (A, b) in parts.items():
    cluster.client(i, cp.sum_squares(A @ w[i] - b))
for i, j in nx.complete_graph(8).edges:
    cluster.couple(objective=weight * cp.norm(w[i] - w[j]))


def groups():
    """The clients whose models are the same."""
    near = nx.Graph(
        [(i, j) for i in parts for j in parts if np.abs(w[i].value - w[j].value).max() < 1e-3]
    )
    return [sorted(part) for part in nx.connected_components(near)]


found, last = {}, None
for value in [0.1, 0.5, 1.0, 1.5, 4.0, 16.0]:
    weight.value = value
    last = cluster.solve(start=last)
    found[value] = np.stack([w[i].value for i in parts])
    print(f"λ = {value:3.1f}  {last.status}, {last.rounds:3} rounds   {groups()}")

# %%
figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
for i in parts:
    places = np.stack([found[value][i] for value in found])
    style = "o-" if i % 2 == 0 else "s--"
    axis.plot(
        places[:, 0],
        places[:, 2],
        style,
        markersize=4,
        color="tab:blue" if i % 2 == 0 else "tab:orange",
    )
axis.plot([], [], "o-", color="tab:blue", label="even clients")
axis.plot([], [], "s--", color="tab:orange", label="odd clients")
axis.set(xlabel="first coefficient", ylabel="third coefficient")
axis.legend()
plt.show()

# %% [markdown]
# Each line is a client, from where it is nearly alone to where all are one: first the two kinds
# merge each in itself, later the two. At $\lambda$ between, the clusters are the truth. And it is
# right, not only plausible:

# %%
weight.value = 1.5
check = cluster.solve().verify()
assert check.ok
check

# %% [markdown]
# ## Exercise
#
# 1. Let two hospitals that know each other share an intercept: one variable, used by both. Who
#    gains?
# 2. Make the private part of the hospitals sparse: each scores with `w + mine`, and pays
#    `0.1 * cp.norm1(mine)`. Which coefficients differ, and where? (`models/shared_private.py`.)
# 3. On a path of eight clients instead of all pairs the clusters are found by
#    `models/network_lasso.py`. How many numbers are sent now, and are they the same clusters?
