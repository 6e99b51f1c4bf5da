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
# # Four hospitals, one risk score
#
# Cleveland, Budapest, Zurich with Basel, and Long Beach each examined a few hundred patients for
# heart disease in the 1980s. They want one risk score that all of them can use, and no hospital
# wants to hand over its patients' records.
#
# After this notebook you can **declare** such a problem, hospital by hospital, **solve** it with a
# server in the middle and from neighbour to neighbour, and **verify** both answers against the
# solve that a single owner of all the data would have run.

# %%
from dataclasses import replace

import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load_hospitals, standardised_together

# %% [markdown]
# ## The problem
#
# Hospital $i$ has patients $k = 1, \dots, N_i$. Patient $k$ has eleven features $a_{ik}$ and a
# diagnosis $b_{ik} = \pm 1$, where $+1$ is ill. With $N = \sum_i N_i$ the hospitals look for
#
# $$
# \min_{w,\, c_1, \dots, c_4} \; \sum_{i=1}^{4} \;
# \underbrace{\frac{1}{N} \sum_{k=1}^{N_i}
# \log\!\Big(1 + e^{-b_{ik} (a_{ik}^\top w + c_i)}\Big)}_{f_i(w,\, c_i)}
# \qquad \text{s.t.} \quad w \in W .
# $$
#
# | | who has it | who sees it |
# |---|---|---|
# | records $a_{ik}, b_{ik}$ | hospital $i$ | nobody else |
# | intercept $c_i$ | hospital $i$ | nobody else |
# | weights $w$ | everybody, a copy each | the server, or the neighbours |
#
# The weights are what the hospitals must agree on. The intercept stays private because it says how
# ill a hospital's patients are on the whole, and there they differ widely:

# %%
raw = load_hospitals()  # ships with the package
columns = raw["cleveland"].columns

pd.DataFrame(
    {
        name: {
            "patients": len(rows.target),
            "ill": int((rows.target > 0).sum()),
            "share ill": f"{(rows.target > 0).mean():.0%}",
        }
        for name, rows in raw.items()
    }
).T

# %% [markdown]
# They differ in what they can learn, too. Here is how some features correlate with the diagnosis:

# %%
watched = ["age", "sex", "thalach", "exang", "oldpeak"]
pd.DataFrame(
    {
        name: {
            feature: np.corrcoef(rows.features[:, columns.index(feature)], rows.target)[0, 1]
            for feature in watched
        }
        for name, rows in raw.items()
    }
).T.round(2)

# %% [markdown]
# In Cleveland a patient whose heart cannot beat fast (`thalach`) is more likely to be ill; in Long
# Beach the same measurement says nothing. In Switzerland it looks safer to be a man (`sex` is 1),
# because all of its ten women are ill. No cardiologist would sign that, so the score has to keep to
# what medicine knows:
#
# $$
# W = \big\{ w : \quad
# w_\text{age},\, w_\text{sex},\, w_\text{exang},\, w_\text{oldpeak} \ge 0, \quad
# w_\text{thalach} \le 0, \quad
# \|w\|_1 \le 2 \big\} .
# $$
#
# The budget $\|w\|_1 \le 2$ keeps the score short: weights that do not earn their share of it are
# zero. Constraints like these are ordinary cvxpy, and they hold in every round, at every hospital.
#
# ## Declare
#
# Each hospital is a *client*: a name, an objective, constraints. `w` is one cvxpy variable that
# all four use, and that alone says that they must agree on it. The features are put on one scale
# first, since hospitals that share a weight must share its unit. (For that they would exchange
# means and variances, once.)

# %%
hospitals = standardised_together(raw)


def declare(hospitals):
    """One client a hospital; the weights are shared, the intercepts are not."""
    w = cp.Variable(len(columns), name="w")
    weight = dict(zip(columns, w, strict=True))
    rules = {f"w[{name}] >= 0": weight[name] >= 0 for name in ("age", "sex", "exang", "oldpeak")}
    rules["w[thalach] <= 0"] = weight["thalach"] <= 0
    rules["budget"] = cp.norm1(w) <= 2

    model = dm.Model("four hospitals")
    total = sum(len(rows.target) for rows in hospitals.values())
    intercepts = {name: cp.Variable(name=f"c_{name}") for name in hospitals}
    for name, rows in hospitals.items():
        margin = cp.multiply(rows.target, rows.features @ w + intercepts[name])
        model.client(name, cp.sum(cp.logistic(-margin)) / total, rules.values())
    return model, w, intercepts, rules


model, w, intercepts, rules = declare(hospitals)
model

# %% [markdown]
# The star marks what is shared. With nothing else said, it is shared through a server, as in
# federated learning.
#
# ## Solve on a star
#
# Every hospital gets a copy $w_i$ of its own, the server holds $z$, and *consensus* is the
# constraint $z - w_i = 0$. It is relaxed by an augmented Lagrangian, which falls apart into one
# small problem for each hospital (Fed-DALD-CC). In a round
#
# $$
# \begin{aligned}
# (w_i, c_i) &\leftarrow \arg\min_{w_i \in W,\; c_i} \; f_i(w_i, c_i)
#    + \mu_i^\top (z - w_i) + \|\rho_i \circ (z - w_i)\|^2
#    && \text{at each hospital, side by side,} \\
# z &\leftarrow \text{the } z \text{ that makes the same penalties smallest}
#    && \text{at the server,} \\
# \mu_i &\leftarrow \mu_i + 2\, \rho_i \circ \rho_i \circ (z - w_i)
#    && \text{for each hospital.}
# \end{aligned}
# $$
#
# Each message has eleven numbers. (They are not the records, though they are no proof of
# privacy either.) There is nothing to tune:

# %%
star = model.solve()
star

# %% [markdown]
# ## Verify
#
# Since this is a demonstration, we do own all the data, and can ask plain cvxpy for the answer to
# the whole problem at once, the all-in-one (AIO) solve. `verify` holds the two against each other.

# %%
check = star.verify()
check

# %% [markdown]
# Row by row: the distributed answer costs no more than the all-in-one one; the multipliers prove,
# by a duality gap, that no answer near it is better; the value is the one that was reported; all
# constraints hold and all copies of `w` agree. Each difference stands beside what it is measured
# by. How far the two solutions are apart is informational, since some problems have more than one.
#
# In a script, `check.ok` is a plain bool:

# %%
assert check.ok

# %% [markdown]
# How did it get there? The primal residual is how far the hospitals are from consensus, the dual
# residual how far the server still moves. A run ends when both are below their tolerance. `plot`
# returns a matplotlib figure, to which one may add what one likes:

# %%
star.plot()

# %% [markdown]
# ## Solve on a chain
#
# Perhaps nobody trusts a server. Then the hospitals agree with their neighbours only, here along a
# chain (Fed-DALD-DC). Any connected networkx graph over the clients will do. The declaration stays
# as it is.

# %%
model.topology(nx.path_graph(["hungary", "cleveland", "long_beach", "switzerland"]))
chain = model.solve()
chain

# %%
chain_check = chain.verify()
assert chain_check.ok
chain_check

# %%
chain.plot()

# %% [markdown]
# Two roads, one answer. Each result keeps its own values, however often the model is solved again:

# %%
pd.DataFrame(
    {
        name: {
            "objective": f"{result.value:.6f}",
            "rounds": result.rounds,
            "vectors sent a round": 2 * len(result.compiled.edges),
            "distance of w from the star's": f"{np.abs(result[w] - star[w]).max():.0e}",
        }
        for name, result in {"star": star, "chain": chain}.items()
    }
)

# %% [markdown]
# ## What they agreed on
#
# Bars are the weights of the common score, for features of variance one. Dots are what each
# hospital would have found alone, under the same rules.

# %%
meaning = {
    "age": "age",
    "sex": "man",
    "cp_2": "chest pain: atypical angina",
    "cp_3": "chest pain: not angina",
    "cp_4": "no chest pain",
    "trestbps": "blood pressure at rest",
    "restecg_1": "ECG at rest: ST-T abnormal",
    "restecg_2": "ECG at rest: hypertrophy",
    "thalach": "highest heart rate",
    "exang": "exercise brings angina",
    "oldpeak": "ST depression by exercise",
}
# Enough for a score; Clarabel's default, eight digits, is sometimes out of its own reach.
six_digits = {"solver": "CLARABEL", "tol_gap_abs": 1e-6, "tol_gap_rel": 1e-6, "tol_feas": 1e-6}


def fit(hospitals):
    """All-in-one, as we have seen that it gives the same answer: hospital -> (w, c)."""
    model, w, intercepts, _ = declare(hospitals)
    model.monolithic().solve(**six_digits)
    return {name: (w.value, intercepts[name].value) for name in hospitals}


order = np.argsort(star[w])
figure, axis = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
axis.barh(np.arange(len(columns)), star[w][order], color="lightgray", label="together")
for (name, rows), marker in zip(hospitals.items(), "os^D", strict=True):
    alone, _ = fit({name: rows})[name]
    axis.plot(alone[order], np.arange(len(columns)), marker, label=f"{name} alone", alpha=0.8)
axis.set_yticks(np.arange(len(columns)), [meaning[columns[at]] for at in order])
axis.set_xlabel("weight in the score (right: raises the risk)")
axis.axvline(0, color="black", linewidth=0.8)
axis.legend(loc="lower right", reverse=True)
plt.show()

# %% [markdown]
# The duals say what the rules cost. They come under the constraint objects that were declared, with
# cvxpy's signs:

# %%
pd.DataFrame({"multiplier": {name: f"{star.duals[rule]:.4f}" for name, rule in rules.items()}})

# %% [markdown]
# Only the budget binds: a little more of it would lower the loss at that rate. The rules on signs
# cost nothing. Taken together, the data agree with medicine of their own accord; the rules are a
# promise that next year's score will, too.
#
# ## Was it worth it?
#
# An honest table needs patients that the score has not seen. So each hospital's patients are dealt
# into five parts, and each part is scored by a model fitted to the other four: by the hospital's
# own (*alone*) and by the common one (*together*). *Accuracy* is the share of right diagnoses, next
# to what one gets by giving all patients the commoner diagnosis (*all alike*). *Ranking* is the
# chance that an ill patient scores above a healthy one (the area under the ROC curve), where 0.5 is
# a coin.

# %%
generator = np.random.default_rng(0)
part = {name: generator.permutation(len(rows.target)) % 5 for name, rows in hospitals.items()}
scores = {(how, name): np.zeros(len(part[name])) for how in ("alone", "together") for name in part}
for left_out in range(5):
    training = {}
    for name, rows in hospitals.items():
        kept = part[name] != left_out
        training[name] = replace(rows, features=rows.features[kept], target=rows.target[kept])
    together = fit(training)
    for name, rows in hospitals.items():
        unseen = part[name] == left_out
        alone = fit({name: training[name]})
        for how, (weights, intercept) in {"alone": alone[name], "together": together[name]}.items():
            scores[how, name][unseen] = rows.features[unseen] @ weights + intercept

table = {}
for name, rows in hospitals.items():
    ill = rows.target > 0
    line = table[name] = {("", "ill of all"): f"{ill.sum()} of {ill.size}"}
    line["accuracy", "all alike"] = f"{max(ill.mean(), 1 - ill.mean()):.0%}"
    for how in ("alone", "together"):
        line["accuracy", how] = f"{((scores[how, name] > 0) == ill).mean():.0%}"
    for how in ("alone", "together"):
        score = scores[how, name]
        line["ranking", how] = f"{np.greater.outer(score[ill], score[~ill]).mean():.2f}"
pd.DataFrame(table).T

# %% [markdown]
# For Cleveland and Hungary, which have patients enough, next to nothing changes. Long Beach gains:
# its own score does not rank much better than a coin, the common one does. By accuracy one would
# not see it, since calling everybody ill does as well there. In Switzerland 108 of 116 patients are
# ill and both scores call everybody ill, so accuracy means nothing, and with eight healthy patients
# the ranking means little. (Dealt otherwise, the parts move these figures by some hundredths, and
# Switzerland's ranking by more.)
#
# ## Look inside
#
# `compile` shows what `solve` works on: one subproblem for each hospital, and the levels in which
# they are solved. Hospitals on one level work side by side; each sees what the levels before it
# have just found.

# %%
compiled = model.compile(rho=1.0)
compiled

# %% [markdown]
# The same as the paper's *hierarchical matrix*: entry $(i, j)$ is 1 if $i$ is solved before
# its neighbour $j$, and the diagonal counts them.

# %%
names = list(compiled.network)
pd.DataFrame(compiled.network.matrix, index=names, columns=names)

# %% [markdown]
# A subproblem is an ordinary cvxpy problem, whose multipliers `mu`, penalties `rho` and neighbour
# values are Parameters. `C` is the consensus constraint, the difference between the hospital's copy
# of `w` and its neighbour's:

# %%
cleveland = compiled["cleveland"]
cleveland

# %% [markdown]
# It can be solved by hand. After `compile` multipliers and neighbour values are zero, so this is
# Cleveland's very first move under `rho=1.0`:

# %%
cleveland.problem.solve(**six_digits)
pd.DataFrame({"Cleveland's first w": cleveland.variables[0].value}, index=columns).round(3).T

# %% [markdown]
# ## What next
#
# `solve` needs no options, and has some for those who want to steer:
#
# | option | for example | what it does |
# |---|---|---|
# | `sequence` | `dm.Sequence.from_matrix(S)`, `.levels(names)` | who is solved when |
# | | `dm.Sequence.random(k=2)`, `.greedy(k=2)` | only some in a round |
# | | `dm.Sequence.repeat(["cleveland"])` | some more often |
# | `stopping` | `dm.FixedTolerance()`, `dm.ShrinkingTolerance()` | inner loop by residual: B1, B2 |
# | | `dm.GrowingBudget()`, `dm.FixedBudget(v_max=1)` | inner loop by number: B3, B4 |
# | `rho` | `1.0`, `{"cleveland": 2.0}`, `dm.ResidualBalancing()` | penalty, fixed or adapting |
# | `eps_pri`, `eps_dual`, `max_rounds` | `1e-8`, `1e-8`, `500` | when the run ends |
#
# `help(dm.Sequence)` and the like tell more, with the equations. To decompose a problem that is
# written in cvxpy already, there is `dm.decompose(problem)`, and `problem.solve(method="dald")`.
#
# The data: A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, *Heart Disease*, UCI Machine
# Learning Repository (1989), CC BY 4.0. The method: W. Guo, T. Qu, C. Pan, G. Q. Huang,
# *Distributed optimization: designed for federated learning*.

# %% [markdown]
# ## Exercise
#
# 1. The budget keeps the weights from adding up to more than two. Make it three: which weights
#    grow, and does every hospital still agree?
# 2. Take one hospital out of the chain and give the two ends of the gap an edge of their own
#    (`model.topology(...)`). Is the answer that of three hospitals?
# 3. Declare a federation of your own with rows that you have. The nearest file of `models/` is
#    three edits away.
