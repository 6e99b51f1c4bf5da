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
# # Who solves what, and how fast
#
# A model is declared client by client in cvxpy. In every round each client minimises its augmented
# Lagrangian. Written by hand that is one `problem.solve()` a client and round, and most of its time
# goes into everything but the solver. The compiler knows what each client is, so it hands the round
# to the fastest exact method for it. After this notebook you can read what it sees, what it picks
# and why, tell which line of a client makes it slow, and choose another solver.

# %%
import time

import cvxpy as cp
import numpy as np
import pandas as pd

import dald_model as dm

rng = np.random.default_rng(0)
m = 20

# %% [markdown]
# ## Six owners of six minds
#
# They look for one vector $w$. Each has data of its own and its own idea of a good fit.


# %%
def data(rows=150):
    """Rows of features and what a short truth makes of them, with noise."""
    A = rng.normal(size=(rows, m))
    return A, A @ np.where(np.arange(m) < 5, 1.0, 0.0) + 0.3 * rng.normal(size=rows)


w = cp.Variable(m, name="w")
model = dm.Model("six minds")

A, b = data()
model.client("least squares", cp.sum_squares(A @ w - b))
A, b = data()
model.client("capped", cp.sum_squares(A @ w - b), [w >= -0.1, cp.sum(w) <= 6])
A, b = data()
model.client("lasso", cp.sum_squares(A @ w - b) + 5 * cp.norm1(w))
A, b = data()
model.client("logistic", 20 * cp.sum(cp.logistic(cp.multiply(-np.sign(b), A @ w))))
A, b = data()
model.client("in a ball", cp.sum(cp.huber(A @ w - b)), [cp.norm(w) <= 3])
A, b = data(60)
model.client("quantile", cp.sum(cp.maximum(0.7 * (A @ w - b), -0.3 * (A @ w - b))))
model

# %% [markdown]
# ## What the compiler sees
#
# `model.compile()` takes the model apart. Each part is a *subproblem*: the augmented Lagrangian of
# one client as a DPP cvxpy problem. It can be looked at, and solved by hand.

# %%
compiled = model.compile(rho=1.0)
compiled

# %%
compiled["capped"]

# %% [markdown]
# But nobody has to solve these. cvxpy writes `sum_squares(A @ w - b)` with a variable for every row
# of data; eliminated again, what is left has the size of $w$, whatever the number of rows. The
# augmented terms are a quadratic in closed form, and from round to round only its linear part
# changes. `explain` says what each client is then, and who takes it:

# %%
compiled.explain()

# %% [markdown]
# Recognition is algebra on cvxpy's canonical form, coefficient by coefficient, and every form is
# compared with cvxpy's own values at random points before it is used. What is none of the known
# shapes stays a cone program, whose data Clarabel takes in place.
#
# ## The same answer, sooner
#
# The option `solver` names one way for all clients. `"reference"` is cvxpy's own `problem.solve()`,
# slow and readable; every other solver is tested against it.


# %%
def timed(**options):
    """A result and the seconds it took."""
    begun = time.perf_counter()
    result = model.solve(**options)
    return result, time.perf_counter() - begun


fast, seconds = timed()
slow, seconds_slow = timed(solver="reference")

pd.DataFrame(
    {
        "rounds": [fast.rounds, slow.rounds],
        "value": [f"{fast.value:.9g}", f"{slow.value:.9g}"],
        "time, reference = 1": [f"{seconds / seconds_slow:.3f}", "1"],
    },
    index=["auto", "reference"],
)

# %%
fast.verify()

# %% [markdown]
# ## Naming a solver
#
# A name, an object of `dald_model.solvers` or a dict from clients to either. A solver that cannot
# take its client says why, before anything is computed:

# %%
try:
    model.solve(solver="factor")
except dm.OptionError as error:
    print(error)

# %%
compiled.explain({"lasso": "conic", "least squares": "OSQP"})

# %% [markdown]
# A solver may also fail on the way, on numbers it cannot take. Then the client goes on with the
# next one in the last column, and the history says so: `result.fallbacks` names the round, the
# client and what was said.

# %%
fast.fallbacks

# %% [markdown]
# ## Early rounds need no digits
#
# The accuracy that is asked of a client follows the residuals: a hundredth of them, so that early
# rounds are cheap and the last are exact. `accuracy=...` fixes it. Solvers that factor or pivot are
# exact in any case; Newton's method saves steps.

# %%
exact, _ = timed(accuracy=1e-9)
apart = abs(fast.value - exact.value) / abs(exact.value)
print(f"rounds: {fast.rounds} and {exact.rounds}, the values differ by {apart:.0e} relative")

# %% [markdown]
# ## A client that travels
#
# A compiled client is arrays and a small header, so another process can minimise it without cvxpy
# objects and without trusting a pickle:

# %%
letter = dm.pack(compiled["capped"])
there = dm.unpack(letter)
print(
    len(letter),
    "bytes;",
    there.form.size,
    "variables;",
    dm.solvers.NAMED["active_set"].refuses(there) or "taken",
)

# %% [markdown]
# ## Exercise
#
# 1. Add `cp.norm(x, 4)` to one of the clients. Who solves it now, and what does `explain()` say of
#    the faster ones?
# 2. Solve with `solver="reference"`, cvxpy's own `problem.solve()` in every round. By how much do
#    the values differ, and the seconds?
# 3. Which of your own clients is solved by `conic` or `reference`? Write its objective with other
#    atoms.
