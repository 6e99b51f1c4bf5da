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
# # The paper's tables and figures
#
# After this notebook you can run any part of the paper's experiments yourself, and you know which
# of its figures come out to the printed digits, which do not, and why: W. Guo, T. Qu, C. Pan and
# G. Q. Huang, *Distributed optimization: designed for federated learning*.
#
# The whole runs are commands: `dald table1`, `dald table2`, `dald figure5`. Here are parts that
# take seconds. Figs. 2 and 3 of the paper are in notebook 03. The data are read from the folder
# that the variable `DALD_DATA` names, or fetched by scikit-learn (`python -m pydoc
# dald_model.datasets`).

# %%
import matplotlib.pyplot as plt
import pandas as pd

import dald_model as dm
from dald_model.datasets import load
from dald_model.experiments import table1
from dald_model.experiments.figure5 import figure5, figure5_plot
from dald_model.experiments.mnist_federated import EQUATION, METHODS, PAPER
from dald_model.experiments.table2 import DIFFERING, PRINTED
from dald_model.models.linear_regression import consensus_regression

# %% [markdown]
# ## Table 1: five regressions, three nodes in a chain
#
# Each set is dealt at random to three nodes. AIO is the fit of all rows at once; DALD runs with a
# server (CC) and along the chain (DC), here on raw features, which is the hard case. Two of the
# five sets (the other three: `dald table1`):

# %%
sets = ["diabetes", "abalone"]
lines = [line for name in sets for line in table1.compare(load(name))]
frame = pd.DataFrame(lines).set_index(["title", "method"])
shown = frame.loc[:, ["mse", "r2", "rounds", "relative_gap"]].astype({"rounds": "Int64"})
shown.style.format({"mse": "{:.4f}", "r2": "{:.4f}", "relative_gap": "{:.0e}"}, na_rep="")

# %% [markdown]
# **What comes out.** The AIO column to the printed digits, once the intercept and the coding of the
# columns are right. Every DALD run reaches AIO to working accuracy, on raw features as on
# standardised ones, in some ten rounds.
#
# **What does not.** The paper's DALD column: it is above AIO by up to a percent, and no split over
# the nodes, which the paper does not state, gives it. The last line of each set is the paper's own
# setting, $\rho = 1$ for all entries and 1,000 rounds, on raw features: it is still on its way.
# The reason can be seen in the model. What agreeing on a coefficient is worth differs by orders of
# magnitude from one to the next, and so do the penalties that fit:

# %%
parts = enumerate(load("abalone").split(3, table1.SEED))
chain = consensus_regression({f"node {at + 1}": part for at, part in parts}, chain=True)
natural = dm.ResidualBalancing().init(chain.compile())
result = chain.solve()
plain = chain.solve(rho=1.0, stopping=dm.FixedBudget(1), acceleration=None, max_rounds=300)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), layout="constrained")
first = natural[: natural.size // 2]
left.bar(range(first.size), first**2)
left.axhline(1.0, color="tab:red", label="ρ = 1 for all")
left.set(yscale="log", xlabel="coefficient", ylabel="ρ² that its curvature asks for")
figure.legend(*left.get_legend_handles_labels(), loc="outside upper left")
for run, said, style in ((result, "default", "o-"), (plain, "ρ = 1", "-")):
    right.semilogy(run.history.primal_scaled, style, markersize=3, label=said)
right.set(xlabel="round", ylabel="primal residual")
right.legend()
plt.show()

# %% [markdown]
# ## Table 2: MNIST's 3 against 7, l1 logistic regression
#
# Up to 1,000 clients take one proximal gradient step per round. With two conventions that the paper
# does not print, a seed and a server that divides by 785, the number of coefficients, where
# equation (31) divides by the number of clients, 137 of its 144 cells come out to both printed
# decimals: `notebooks/TABLE2.md` has all of them, and in each of the seven others one of the two
# printed numbers comes out. So the printed advantage of DC over CC with few clients belongs to
# that divisor. Ten clients, forty rounds, both ways:

# %%
runs = {divisor: figure5((10,), 40, divisor) for divisor in (EQUATION, PAPER)}
said = {EQUATION: "n, equation (31)", PAPER: "785, as in the paper"}
last = {
    said[divisor]: run[run["round"] == 40].set_index("method").accuracy_mean_percent
    for divisor, run in runs.items()
}
pd.DataFrame(last).loc[list(METHODS)].round(2).rename_axis("accuracy in %, round 40")

# %% [markdown]
# The figures that the paper prints for ten clients and $\lambda = 10^{-3}$, of 1,000 and 3,000
# rounds (mean in %, deviation in $10^{-4}$):

# %%
printed = {
    (cell.method, f"{cell.rounds} rounds"): f"{found.mean:.2f} / {found.deviation:.2f}"
    for cell, found in PRINTED.items()
    if (cell.clients, cell.weight) == (10, 1e-3)
}
print(len(DIFFERING), "of", len(PRINTED), "cells differ in one of their two numbers")
pd.Series(printed).unstack()

# %% [markdown]
# ## Figure 5
#
# Accuracy against rounds, mean and spread over the clients; the paper shows 100 and 500 clients and
# 300 rounds (`dald figure5`). FedProx stays below both DALD variants, as its multipliers are zero:

# %%
figure5_plot(runs[EQUATION], EQUATION)

# %% [markdown]
# ## Exercise
#
# 1. Which of the nine coefficients of Abalone holds the run with $\rho = 1$ up?
#    `plain.diagnose()` names it. Standardise the rows (`load("abalone").standardised()`) and count
#    the rounds with $\rho = 1$ again.
# 2. Repeat the first table with another seed of the split (`table1.SEED`). Which columns change?
# 3. Run `figure5((10,), 40, PAPER)` with 20 clients. At which number of clients does the divisor
#    stop to matter, and why there?
