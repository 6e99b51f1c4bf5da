"""A first problem on real data, in words: three hospitals, by a server and among neighbours."""

from __future__ import annotations

import networkx as nx
import numpy as np

from dald_model.answer.result import Result
from dald_model.datasets import Dataset, load
from dald_model.model import Model
from dald_model.models.linear_regression import consensus_regression


def demo() -> bool:
    """Solve the problem twice, and say in words what happens; whether both verifications passed."""
    dataset = load("diabetes").standardised()
    shares = dataset.split(3, seed=0)
    hospitals = {f"hospital {at + 1}": part for at, part in enumerate(shares)}

    print("THE PROBLEM")
    print(
        "Three hospitals want to predict from ten measurements how far a patient's diabetes will\n"
        "have gone in a year, by least squares. Together they have 442 patients (scikit-learn's\n"
        "Diabetes data, dealt out at random), but none may show its patients to another. If each\n"
        "uses only its own, its mean squared error over all 442 is"
    )
    for name, (features, target) in hospitals.items():
        alone = _mean_squared_error(dataset, _least_squares(features, target))
        print(f"  {name}, {len(target)} patients    {alone:.4f}")

    print("\nTHE MODEL")
    print(
        "Each hospital declares what it minimises. All use one vector w: an intercept and ten\n"
        "coefficients. Twelve rows, from a QR decomposition, stand for the patients of each: they\n"
        "give the same sum of squares.\n"
    )
    model = consensus_regression(hospitals)
    print(model)

    print("\nFIRST WAY: A SERVER")
    print(
        "In each round every hospital fits a copy of w to its own patients, drawn towards the\n"
        "others' by a penalty and by multipliers, and sends it to a server, which averages the\n"
        "copies and sends the average back. Only coefficients travel.\n"
    )
    by_server, server_ok = _solved_in_words(model)

    print("\nSECOND WAY: NEIGHBOURS")
    print(
        "The same hospitals in a row, 1 - 2 - 3, and no server: each hears only from its\n"
        "neighbours.\n"
    )
    model.topology(nx.path_graph(list(hospitals)))
    by_neighbours, neighbours_ok = _solved_in_words(model)

    print("\nTHE ANSWER")
    print("Mean squared error over all 442 patients")
    for way, vector in {
        "through a server": by_server[model.shared[0]],
        "among neighbours": by_neighbours[model.shared[0]],
        "all patients in one place": _least_squares(dataset.features, dataset.target),
    }.items():
        print(f"  {way:<25}  {_mean_squared_error(dataset, vector):.4f}")
    return server_ok and neighbours_ok


def _solved_in_words(model: Model) -> tuple[Result, bool]:
    """Solve and verify, and print how the rounds went."""
    result = model.solve()
    check = result.verify()
    rounds = [r for r in (1, 3, 10, 30, 100, 300) if r < result.rounds] + [result.rounds]
    print("How far the copies of w are apart, how far they still move in a round, and the sum of")
    print("what the hospitals minimise, relative to the optimum (below it while they disagree):")
    print("  round    apart   moving  objective")
    for at, row in result.history.loc[rounds].iterrows():
        gap = (row["objective"] - check.aio_value) / check.aio_value
        print(f"  {at:>5}  {row['primal']:.1e}  {row['dual']:.1e}   {gap:+.1e}")
    print(f"\n{result}\n")
    print("To check it, and for that only, one solver is given everybody's patients at once:")
    print(check)
    return result, check.ok


def _least_squares(features: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(target)), features]), target)[0]


def _mean_squared_error(rows: Dataset, vector: np.ndarray) -> float:
    return float(np.mean((rows.features @ vector[1:] + vector[0] - rows.target) ** 2))
