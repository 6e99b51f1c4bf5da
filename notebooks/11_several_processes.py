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
# # A federation on several processes
#
# After this notebook you can have a model's clients solved in processes other than your own, list
# every number that passes between, lose a process in the middle of a run and get the same answer,
# and go on from a file after a crash.
#
# The same engine interface carries clients to other machines; what follows is true of those, too.
#
# ## Eight sites
#
# Patients of the four hospitals, dealt to eight sites, share one logistic regression.

# %%
import os
import signal
import tempfile
from pathlib import Path

import cvxpy as cp
import numpy as np

import dald_model as dm
from dald_model.datasets import load_hospitals, standardised_together

model = dm.Model("eight sites")
w = cp.Variable(12, name="w")
for name, one in standardised_together(load_hospitals()).items():
    A = np.column_stack([np.ones(len(one.target)), one.features])
    for half in (0, 1):
        margins = cp.multiply(one.target[half::2], A[half::2] @ w)
        model.client(f"{name} {half + 1}", cp.sum(cp.logistic(-margins)) + cp.sum_squares(w) / 8)

here = model.solve()
here

# %% [markdown]
# ## The same in two processes
#
# `engine=` is all that changes. Each client is packed once, as arrays and a small header without
# any pickle, travels to the process that it is assigned to, and stays there with its rows. The
# iterates are those of one process, to what solvers leave.

# %%
engine = dm.engines.Processes(workers=2)
there = model.solve(engine=engine)
print(there.status, "after", there.rounds, "rounds, as here:", there.rounds == here.rounds)
print("w is apart by", f"{np.abs(there['w'] - here['w']).max():.0e}")
print("other processes than this one:", os.getpid() not in {host.pid for host in engine.hosts()})

# %% [markdown]
# ## What passes between
#
# The list is made from the compiled model. In a round a client receives multipliers and its
# neighbours' values, and sends its point and its objective: no array has a row per patient. The
# data travel once, to the process that plays the site.

# %%
sent = dm.engines.sent(here.compiled)
sent[sent.client == "cleveland 1"].drop(columns="client")

# %%
each_round = sent[sent.when == "each round"]
print(each_round.bytes.sum(), "bytes a round between all eight clients and the coordinator")

# %% [markdown]
# Points and prices are functions of the data, though: a coordinator that sees both in many rounds
# learns the curvature of an objective. `help(dm.engines.sent)` says what follows from that.
#
# ## A process is killed
#
# A metric that kills one of the two processes after the fifth round, as a machine room would. Its
# clients are packed and placed again, and asked the same again; multipliers and points of all are
# with the coordinator, so nothing is lost but warm starts.


# %%
def kill_one(at):
    """Kill the first process after round 5; returns how far the run is."""
    if at.round == 5:
        os.kill(engine.hosts()[0].pid, signal.SIGKILL)
    return at.row["primal_scaled"]


survived = model.solve(engine=engine, metrics={"residual": kill_one})
print(survived.status, "after", survived.rounds, "rounds;", survived.verify(aio=False).ok)
for loss in survived.losses:
    print(
        f"round {loss.round}: lost, replaced, and asked again: {', '.join(map(str, loss.clients))}"
    )

engine.close()

# %% [markdown]
# ## The coordinator dies
#
# A run that writes a file every few rounds goes on from there in another process, after the same
# declarations, bit for bit as if nothing had happened. Here the first run is ended after eight
# rounds, by hand:

# %%
file = Path(tempfile.mkdtemp()) / "run.npz"
stopped = model.solve(checkpoint=file, every=2, callback=lambda at: at.round == 8)
print(stopped.status, "after", stopped.rounds, "rounds;", file.name, file.stat().st_size, "bytes")
again = dm.resume(file, model, callback=lambda at: False)  # functions are not in the file
whole = model.solve(checkpoint=file.with_name("other.npz"), every=2)
print(again.status, "after", again.rounds, "rounds;", whole.rounds, "without an interruption")
print("the same bits:", np.array_equal(again["w"], whole["w"]))

# %% [markdown]
# The file holds no client's data and no pickle, is whole at any moment, and is refused with another
# model.
#
# ## When do processes pay?
#
# A round costs about a millisecond more. So two processes are faster where a round takes 5 ms or
# more in the clients' solvers: cone programs, hinges, hundreds of variables. These eight clients
# are of one shape, are solved by numpy at once, and are faster in one process;
# `help(dm.engines.Processes)` has the figures. For such a model the only gain is the separation.
#
# ## Exercise
#
# 1. Kill both processes in round 5. Then give the engine `retries=0` and kill one: what is raised,
#    and what does its `result` hold?
# 2. Declare a ninth site between the two runs and resume the file. What does the message say?
# 3. Pack one client, `dm.pack(here.compiled["cleveland 1"])`, and unpack it. Minimise what came out
#    for given multipliers with a solver of `dm.solvers`: that is all a host does.
