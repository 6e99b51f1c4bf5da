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
# # A constrained formulation, from the idea to a verified answer
#
# After this notebook you can take a sentence about what a federation of clients owes each of its
# members, write it as constraints, solve it without moving anybody's rows, and prove that the
# answer is right. The formulation made here is in no federated learning framework, and it is not in
# this package either: it takes one constraint a client.
#
# ## The idea
#
# Four hospitals want one score for heart disease. The best score on average may be a bad bargain
# for one of them. So each brings a condition to the table: **"My error is at most a share
# $\varepsilon$ above what I could reach alone."** With $f_i$ the mean squared error of hospital
# $i$, $f_i^\star$ the least that it reaches by itself, and $N_i$ of the $N$ patients,
#
# $$
# \min_{w} \; \sum_{i=1}^{4} \frac{N_i}{N} f_i(w)
# \qquad \text{s.t.} \quad f_i(w) \le (1 + \varepsilon)\, f_i^\star , \quad i = 1, \dots, 4 .
# $$
#
# Each condition is a constraint of one client: $f_i^\star$ and $f_i(w)$ stay where the patients
# are.

# %%
import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load_hospitals, standardised_together
from dald_model.models.linear_regression import squared_error

# %% [markdown]
# ## What each reaches alone
#
# The rows ship with the package. A patient has eleven features and the target $+1$ (ill) or $-1$.

# %%
hospitals = standardised_together(load_hospitals())
names = list(hospitals)
rows = {name: len(one.target) for name, one in hospitals.items()}
total = sum(rows.values())


def least_alone(one):
    """The least mean squared error of a hospital's own score."""
    design = np.column_stack([np.ones(len(one.target)), one.features])
    return np.mean((design @ np.linalg.lstsq(design, one.target)[0] - one.target) ** 2)


alone = {name: least_alone(one) for name, one in hospitals.items()}
pd.DataFrame({"patients": rows, "error alone": alone}).round(3)

# %% [markdown]
# ## Declare
#
# One shared variable `w` says that all must agree on the score. $\varepsilon$ is a `cp.Parameter`,
# so that it may change without anything being compiled again. `squared_error` is the gallery's; a
# plain `cp.sum_squares(A @ w - b)` would do.

# %%
epsilon = cp.Parameter(nonneg=True, name="epsilon")


def declare(guarantees=True):
    """The model, and what it is read by."""
    model = dm.Model("nobody gives up more than epsilon")
    w = cp.Variable(len(hospitals["hungary"].columns) + 1, name="w")
    loss, rule = {}, {}
    for name, one in hospitals.items():
        loss[name] = squared_error(w, one.features, one.target) / rows[name]
        rule[name] = loss[name] <= (1 + epsilon) * alone[name]
        model.client(name, rows[name] / total * loss[name], [rule[name]] if guarantees else [])
    return model, w, loss, rule


def regret(loss):
    """The share that each hospital gives up, at the values of the last solve."""
    return {name: loss[name].value.item() / alone[name] - 1 for name in names}


average, _, loss, _ = declare(guarantees=False)
average.solve()
on_average = regret(loss)
pd.DataFrame({"gives up": {name: f"{share:.1%}" for name, share in on_average.items()}})

# %% [markdown]
# That is the best score on average, and Switzerland, where nearly all patients are ill, pays for
# it. Now with guarantees:

# %%
epsilon.value = 0.5
model, w, loss, rule = declare()
result = model.solve()
result

# %% [markdown]
# ## Verify
#
# Two independent witnesses: a certificate by client solves alone, which nobody needs all rows for,
# and the all-in-one problem, which plain cvxpy solves here since this notebook does own all rows.

# %%
check = result.verify()
assert check.ok
check

# %% [markdown]
# ## Read the answer
#
# The guarantees that bind have multipliers: what the average would gain if that hospital's limit
# were one unit larger.

# %%
guaranteed = regret(loss)
pd.DataFrame(
    {
        "gives up, best on average": {n: f"{share:.1%}" for n, share in on_average.items()},
        "gives up, guaranteed": {n: f"{share:.1%}" for n, share in guaranteed.items()},
        "multiplier": {n: f"{abs(rule[n].dual_value.item()):.3f}" for n in names},
    }
)

# %% [markdown]
# ## Ask how much is possible
#
# The interesting number is the smallest $\varepsilon$ that all can have. Going down from a generous
# one, each solve starts from the last; where no score satisfies everybody, the status says so.

# %%
path, last = {}, None
for value in [1.2, 0.9, 0.7, 0.6, 0.5, 0.45, 0.4]:
    epsilon.value = value
    found = model.solve(start=last)
    print(f"epsilon {value:4.2f}  {found.status:10}  {found.rounds:3} rounds")
    if not found.status.has_answer:
        break
    path[value], last = {"average": found.value, **regret(loss)}, found

# %%
curve = pd.DataFrame(path).T
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(curve.index, curve["average"], "o-", color="tab:gray")
left.axhline(average.solve().value, color="tab:gray", linestyle=":", label="without guarantees")
left.set_xlabel("guarantee ε")
left.set_ylabel("mean squared error, all patients")
left.legend()
for name, marker in zip(names, "os^D", strict=True):
    right.plot(curve.index, curve[name], f"{marker}-", label=name)
right.plot(curve.index, curve.index, color="lightgray", linewidth=6, zorder=0, label="ε")
right.set_xlabel("guarantee ε")
right.set_ylabel("share given up")
right.legend(fontsize="small")
plt.show()

# %% [markdown]
# Left: what the federation pays on average for the promise. Right: who is at the limit, and who
# pays.

# %% [markdown]
# ## One more sentence
#
# **"The score shall follow the patient's sex less."** As a number: the covariance of score and sex
# over all patients is at most 0.1. It is a sum over the hospitals, so it is a coupling: each tells
# its part, one number, and keeps its patients.

# %%
epsilon.value = 0.5
model, w, loss, rule = declare()
sex = hospitals["hungary"].columns.index("sex")
part = {}
for name, one in hospitals.items():
    design = np.column_stack([np.ones(rows[name]), one.features])
    # the mean of the column is 0 over all patients: the hospitals were put on one scale
    part[name] = one.features[:, sex] @ design / total
without = abs(sum(part.values()) @ result[result.compiled.model.shared[0]])

limit = cp.Parameter(nonneg=True, value=0.1, name="limit")
told = {name: cp.Variable(name=f"part of {name}") for name in names}
extended = dm.Model("guarantees, and a score that follows the sex less")
for name, client in model.clients.items():
    extended.client(name, client.objective, [*client.constraints, told[name] == part[name] @ w])
extended.couple(cp.abs(cp.sum(cp.hstack(list(told.values())))) <= limit, name="sex")

both = extended.solve()
assert both.verify().ok
now = extended.couplings["sex"].constraints[0].args[0].value
print(f"covariance          {without:.3f} before, {now:.3f} now")
print(f"mean squared error  {result.value:.4f} before, {both.value:.4f} now")

# %% [markdown]
# Sentences can be at odds with each other, and that is an answer, too:

# %%
limit.value = 0.02
print(extended.solve())

# %% [markdown]
# ## Exercise
#
# 1. Clinicians will not sign a score in which a feature that they know to be harmful counts as
#    healthy: add `w[1 + columns.index("oldpeak")] >= 0` at every client. What does it cost?
# 2. Hospitals differ in how ill their patients are. Give each an intercept of its own (a variable
#    that one client uses is private). How small may the guarantee be then?
# 3. Write a sentence of your own. The nearest file of `models/` is where to start:
#    `loss_guarantees`, `minmax_fairness`, `group_fairness`, `sparsity_budget`.
