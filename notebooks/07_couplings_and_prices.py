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
# # Couplings and prices
#
# After this notebook you can write down what many owners have in common, a balance, a budget, a
# cap, as one constraint over all of them, and read its price. Each owner keeps its costs; what it
# tells is what it would do.
#
# ## A market
#
# Plant $i$ can make $q_i$ MW, at most $c_i$, at a cost of $a_i q_i + b_i q_i^2$ an hour, which is
# its own business. Together they must meet a demand $D$:
#
# $$
# \min_{q} \; \sum_i a_i q_i + b_i q_i^2
# \qquad \text{s.t.} \quad 0 \le q_i \le c_i , \qquad \sum_i q_i = D .
# $$

# %%
import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.models.market import PLANTS

pd.DataFrame(PLANTS, index=["cost a", "rise b", "capacity c"]).T

# %% [markdown]
# Plants are clients. The balance belongs to none of them: it is a *coupling*, declared by
# `model.couple`, which takes any constraint that cvxpy takes. The demand is a `cp.Parameter`, since
# it will change.

# %%
demand = cp.Parameter(value=11.0, name="demand")
q = {name: cp.Variable(name=f"q of {name}") for name in PLANTS}


def plants(title):
    """A model of the five plants, not yet coupled."""
    model = dm.Model(title)
    for name, plant in PLANTS.items():
        cost = plant.cost * q[name] + plant.rise * cp.square(q[name])
        model.client(name, cost, [q[name] >= 0, q[name] <= plant.capacity])
    return model


market = plants("market")
balance = cp.sum(cp.hstack(list(q.values()))) == demand
market.couple(balance, name="balance")
market.draw()

# %%
result = market.solve()
check = result.verify()
assert check.ok
check

# %% [markdown]
# ## The price
#
# The dual value of the balance is the price, with cvxpy's sign: one MW more of demand costs this
# much.

# %%
price = -balance.dual_value
print(f"price {price:.2f}")

# %% [markdown]
# A price is right if it makes a market of strangers work: each plant, told nothing but the price
# and thinking of nothing but its own profit $\pi q_i - a_i q_i - b_i q_i^2$, makes just what the
# optimum wants of it. That can be checked without any solver:

# %%
alone = {
    name: np.clip((price - plant.cost) / (2 * plant.rise), 0, plant.capacity)
    for name, plant in PLANTS.items()
}
pd.DataFrame({"optimal": {n: q[n].value for n in PLANTS}, "for its own profit": alone}).round(4)

# %% [markdown]
# ## All demands
#
# Nothing is compiled again when the demand changes, and each solve starts where the last one ended.

# %%
made, prices, rounds, last = [], [], [], None
levels = np.arange(1, 41) / 2
for level in levels:
    demand.value = level
    last = market.solve(start=last)
    assert last.status == "optimal"
    made.append([q[name].value for name in PLANTS])
    prices.append(-balance.dual_value)
    rounds.append(last.rounds)
print(f"{len(levels)} demands, {np.median(rounds):.0f} rounds each in the median")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.stackplot(levels, np.array(made, dtype=float).T, labels=list(PLANTS))
left.set_xlabel("demand, MW")
left.set_ylabel("made, MW")
left.legend(loc="upper left")
right.plot(levels, prices, "o", color="tab:gray", markersize=4)
right.set_xlabel("demand, MW")
right.set_ylabel("price of a MWh")
plt.show()

# %% [markdown]
# The merit order: the cheapest plant first, and the price is what the dearest plant in use asks for
# one more MW.
#
# ## Two couplings, two prices
#
# Coal and gas emit carbon dioxide, 0.9 and 0.4 tonnes a MWh. A cap on the sum is an inequality over
# the same clients:

# %%
emitted = {"coal": 0.9, "gas": 0.4}
demand.value = 17.0
capped = plants("market with a cap")
balance = cp.sum(cp.hstack(list(q.values()))) == demand
cap = cp.sum(cp.hstack([rate * q[name] for name, rate in emitted.items()])) <= 4.5
capped.couple(balance, name="balance")
capped.couple(cap, name="cap")
result = capped.solve()
assert result.verify().ok
price, carbon = -balance.dual_value, cap.dual_value
print(f"a MWh costs {price:.2f}, a tonne {carbon:.2f}")

# %% [markdown]
# Both prices together leave each plant to itself again: what it earns a MWh is the price less its
# emissions at theirs.

# %%
alone = {
    name: np.clip(
        (price - carbon * emitted.get(name, 0) - plant.cost) / (2 * plant.rise), 0, plant.capacity
    )
    for name, plant in PLANTS.items()
}
pd.DataFrame({"optimal": {n: q[n].value for n in PLANTS}, "for its own profit": alone}).round(4)

# %% [markdown]
# ## A proof without the whole problem
#
# Nobody here could solve the all-in-one problem: nobody has all costs. But whatever the prices are,
# what the plants would do at these gives a lower bound of the least cost; a *certificate* asks each
# client for one small solve.

# %%
certificate = result.certificate()
assert certificate.ok
certificate

# %% [markdown]
# ## What goes into a coupling
#
# | | |
# |---|---|
# | a balance, a market | `model.couple(cp.sum(cp.hstack(q)) == demand)` |
# | a budget, a cap | `model.couple(cp.sum(cp.hstack(q)) <= cap)` |
# | a cone | `model.couple(cp.norm(cp.hstack(q)) <= 4)` |
# | a cost of differences | `model.couple(objective=weight * cp.norm(x - y))` |
# | the worst of several losses | `model.couple(*[loss <= t for loss in losses], objective=t)` |
#
# A coupling of two by an equality is an edge between these, as `model.consensus` makes it.
#
# ## Exercise
#
# 1. Let the demand pay: add a client "city" with the variable `d` and the objective
#    `-60 * d + cp.square(d)`, and balance against `d`. What do the city and the plants agree on?
# 2. Wind and hydro share one line of 4 MW. Where does the price of the line appear?
# 3. In `models/power_flow.py` lines have limits, and each bus gets a price of its own. Raise the
#    limit of the line from D to E from 240 to 400 MW: what becomes of the five prices?
