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
# # Who is solved when
#
# Section V-A of the paper, its Figs. 2 and 3: any routing of information among clients, described
# by a hierarchical network or its matrix; full, partial or repeated; and changed while it runs,
# when clients drop out. (The pictures of Figs. 2 and 3 are not in the paper's source. What follows
# is one network of each of the five kinds that the text names.) After this notebook you can say
# who is solved before whom, let some sit out, and let clients leave and edges change in the middle
# of a run.
#
# Seven clinics fit one linear model to scikit-learn's Diabetes data: 442 patients, dealt out at
# random, ten measurements each, standardised, and an intercept.

# %%
import cvxpy as cp
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd

import dald_model as dm
from dald_model.datasets import load

diabetes = load("diabetes").standardised()
parts = diabetes.split(7, seed=0)
w = cp.Variable(11, name="w")
model = dm.Model("seven clinics")
for number, (features, target) in enumerate(parts, start=1):
    A = np.column_stack([np.ones(len(target)), features])
    model.client(number, cp.sum_squares(A @ w - target) / len(diabetes.target))
model

# %% [markdown]
# ## Fig. 2 and Fig. 3: networks and matrices
#
# A *hierarchical network* (Definition 2) says who is solved before whom: information flows along
# its arrows, upwards, and the root is solved last. Its *hierarchical matrix* (Definition 3) has
# $a_{ij} = 1$ if $i$ is a direct descendant of $j$, and the out-degree of $i$ on its diagonal.
#
# **(a) Full cycle with a server.** All clinics side by side, then the server: Fed-DALD-CC.

# %%
star = model.compile()
star.network.matrix

# %%
star.draw()

# %% [markdown]
# **(b) Full cycle along a chain**, one clinic after the other: Fed-DALD-DC as in Section VI.

# %%
model.topology(nx.path_graph(range(1, 8)))
chain = model.compile()
natural = dm.Sequence.natural()
natural.network(chain.graph).matrix

# %%
chain.draw(natural)

# %% [markdown]
# **(e) Full cycle along a tree**, from a root. Clinics of one level do not wait for each other.
# The matrix can be read back: `from_matrix` checks its shape, its diagonal, that it has no cycle,
# and that it is about the edges of the consensus graph.

# %%
model.topology(nx.Graph([(1, 5), (2, 5), (3, 6), (4, 6), (5, 7), (6, 7)]))
tree = model.compile()
from_root = dm.Sequence.from_root(7)
matrix = from_root.network(tree.graph).matrix
assert (dm.Sequence.from_matrix(matrix).network(tree.graph).matrix == matrix).all()
matrix

# %%
tree.draw(from_root)

# %% [markdown]
# **(c) Partial cycle**: an inner loop solves some, here the left branch 1, 2, 5, or a single one.
# The last inner loop of an outer loop is a full cycle, as the paper recommends.
# **(d) Selective-repetitive**: some are revisited, here that branch, before everybody has a turn.
# "Essentially, the latter can be achieved by combining the first two": `+` combines.
#
# `result.history.who` records who was solved, in order:

# %%
partial = dm.Sequence.partial([1, 2, 5]).along(from_root)
repeated = partial + from_root
for sequence in (partial, repeated):
    history = model.solve(sequence=sequence, max_rounds=3).history
    print(sequence.label)
    print(history[["outer", "inner", "who"]].to_string(), "\n")

# %% [markdown]
# ## Rounds to tolerance, for each kind
#
# A round is one inner loop, and the tolerances are the default $10^{-6}$. A round of a partial
# cycle is cheaper: the last columns count the clinics that were solved. Each answer is verified
# against the all-in-one solve of all 442 patients. The objective of the runs with a server and of
# those without is the same.

# %%
S = dm.Sequence


def tried(kinds, online=None):
    """One row a sequence: rounds and solves to the tolerances, and whether the answer verifies."""
    rows = {}
    for label, sequence in kinds.items():
        result = model.solve(sequence=sequence, online=online, max_rounds=5000)
        solves = int(result.history.solved.sum())
        rows[label] = {
            "status": str(result.status),
            "rounds": result.rounds,
            "clinics solved": solves,
            "a round": round(solves / result.rounds, 1),
            "verified": result.verify().ok,
        }
    return pd.DataFrame(rows).T


on_tree = {
    "(e) full cycle from root 7": from_root,
    "full cycle by colour (default)": None,
    "full cycle, one after the other": natural,
    "(c) partial: 1, 2, 5": partial,
    "partial: branches in turn": S.partial([1, 2, 5], [3, 4, 6], [7]).along(from_root),
    "partial: random 3": S.random(3, seed=0),
    "partial: essentially cyclic 3": S.essentially_cyclic(3, seed=0),
    "partial: greedy 3": S.greedy(3),
    "(d) repeated: 1, 2, 5, then all": repeated,
    "in turn: full, random 2": S.alternate(from_root, S.random(2, seed=1)),
}
table = tried(on_tree)
model.topology(nx.path_graph(range(1, 8)))
chained = tried({"(b) chain, one after the other": natural})
model.topology(None)
served = tried({"(a) server": None})
table = pd.concat([served, chained, table])
assert table.verified.all()
table

# %% [markdown]
# `explain` states the convergence guarantee of each sequence:

# %%
for sequence in (from_root, S.random(3), S.essentially_cyclic(3), S.greedy(3)):
    print(sequence.explain(), "\n")

# %% [markdown]
# A function can be a strategy of your own. The paper asks that every client is chosen with equal
# probability; before a run the function is tried on 2,000 inner loops, and a warning says if it
# favours a client.

# %%
import warnings

model.topology(nx.Graph([(1, 5), (2, 5), (3, 6), (4, 6), (5, 7), (6, 7)]))


def mostly_first(moment, generator):
    """Clinic 1 half of the time, else one drawn from all."""
    return [1] if generator.random() < 0.5 else [moment.live[generator.integers(7)]]


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.solve(sequence=S.custom(mostly_first), max_rounds=1)
print(caught[0].message)

# %% [markdown]
# ## When things go wrong
#
# 30 % of the clinics drop out of every round, at random; or some links lose messages; or a clinic
# takes three rounds for an answer; or some of all of that. An absent clinic keeps its value and the
# multipliers of its edges, and its neighbours go on. The answer is still that of everybody. (Late
# answers are the most harmful, as they are to a point that is out of date: with clinic 5, in the
# middle of the tree, four rounds late the run stalls, and says so.)

# %%
faults = {
    "nothing": None,
    "30 % of the clinics drop out": dm.Dropout(0.3, seed=0),
    "20 % of the messages are lost": dm.LossyLinks(0.2, seed=0),
    "clinic 1 answers every third round": dm.Stragglers({1: 3}),
    "10 % drop out, 10 % lost, 1 every second": [
        dm.Dropout(0.1, seed=0),
        dm.LossyLinks(0.1, seed=0),
        dm.Stragglers({1: 2}),
    ],
}
rows = pd.concat([tried({what: None}, online=fault) for what, fault in faults.items()])
assert rows.verified.all()
assert (rows.status == "optimal").all()
rows

# %%
figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
for what, fault in faults.items():
    history = model.solve(online=fault, max_rounds=5000).history
    axis.semilogy(history[["primal_scaled", "dual_scaled"]].max(axis=1), label=what)
axis.set(xlabel="round", ylabel="larger of the two residuals")
axis.grid(alpha=0.3)
figure.legend(loc="outside right upper")  # the curves fall from there
plt.close(figure)
figure

# %% [markdown]
# **A clinic leaves for good.** Clinic 5 is the only way from 1 and 2 to the others. The result says
# that it is the answer to another problem, and to which; the check is made against that problem.

# %%
result = model.solve(online={20: dm.Change(leave=[5])})
print(result, "\n")
print(result.verify())

# %% [markdown]
# It comes back in round 60 and goes on where it was; meanwhile the others change the topology,
# too: 1 and 2 talk to 3 and 4 while it is away. Edges that may ever be there are declared, and
# those that are not there yet are disconnected before round 1. The two spare edges are gone at the
# end, hence "reduced", but the graph is connected without them, and the answer is everybody's.

# %%
spare = [(1, 3), (2, 4)]
model.topology(nx.Graph([(1, 5), (2, 5), (3, 6), (4, 6), (5, 7), (6, 7), *spare]))
result = model.solve(
    online={
        1: dm.Change(disconnect=spare),
        20: dm.Change(leave=[5], connect=spare),
        60: dm.Change(join=[5], disconnect=spare),
    },
    max_rounds=3000,
)
print(result.status, result.dropped, "in", result.rounds, "rounds;", result.verify().ok)

# %% [markdown]
# ## Exercise
#
# 1. Write the matrix of a network in which clinic 4 comes first and all others last, and solve by
#    it (`dm.Sequence.from_matrix`). How many levels has it, and how many rounds does it take?
# 2. Two clinics are drawn per round, `dm.Sequence.participating(2)`. Until when is somebody left
#    out?
# 3. Let clinic 5 leave for good in round 20, without the spare edges. What does the status say, and
#    against which problem is the answer verified?
