r"""The paper's Figure 5: accuracy against rounds of FedProx, Fed-DALD-CC and Fed-DALD-DC."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import pandas as pd

from dald_model.datasets import Folder
from dald_model.experiments.mnist_federated import (
    EQUATION,
    METHODS,
    PAPER,
    SLIP,
    Figures,
    Setting,
    follow,
    images,
    over,
)
from dald_model.lazy_imports import optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIENT_COUNTS = 100, 500
WEIGHT = 1e-3
ROUNDS_SHOWN = 300
"""What the paper's figure shows: clients, lambda and iterations."""

COLUMNS = ["clients", "method", "round", "accuracy_mean_percent", "accuracy_std_1e-4"]


def figure5(
    clients: Sequence[int] = CLIENT_COUNTS,
    rounds: int = ROUNDS_SHOWN,
    divisor: str = EQUATION,
    data: Folder = None,
    jobs: int = 1,
    tell: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Measure the accuracy of the clients after every round.

    Parameters
    ----------
    clients
        Numbers of clients, one panel each.
    rounds
        How many rounds.
    divisor, data, jobs, tell
        As for :func:`dald_model.experiments.table2.table2`.

    Returns
    -------
    pandas.DataFrame
        One row for each number of clients, method and round, with :data:`COLUMNS`.
    """
    images(data)  # what is missing is told before anything is begun
    settings = [Setting(n, WEIGHT, method, divisor) for n, method in product(clients, METHODS)]
    lines = []
    for setting, (found, seconds) in over(settings, run, (rounds, data), jobs):
        lines += [(setting.clients, setting.method, at, *one) for at, one in found.items()]
        tell(f"n = {setting.clients}, {setting.method}: {rounds} rounds, {seconds:.0f} s")
    return pd.DataFrame(lines, columns=COLUMNS)


def run(setting: Setting, rounds: int, data: Folder) -> tuple[dict[int, Figures], float]:
    """Round -> figures of one run, and its seconds."""
    begun = time.perf_counter()
    rows = images(data)
    found = follow(setting, [rounds], rows, rows.accuracy, every_round=True)
    figures = {at: Figures.of(values) for at, values in found.items()}
    return figures, time.perf_counter() - begun


def figure5_plot(frame: pd.DataFrame, divisor: str) -> Figure:
    """A panel for each number of clients: the mean over them, in a band of one deviation.

    The first tenth of the rounds, a steep rise from a half, may begin below the panel, so that the
    rest can be told apart.
    """
    plt = optional("matplotlib.pyplot", "plot", "figure5")

    sizes = sorted(frame["clients"].unique())
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(5.4 * len(sizes), 4.2), sharey=True, squeeze=False
    )
    figure.set_layout_engine("constrained")
    late = frame[frame["round"] > frame["round"].max() // 10]
    lowest = (late["accuracy_mean_percent"] - late["accuracy_std_1e-4"] / 100).min()
    for axis, size in zip(axes[0], sizes, strict=True):
        for method, style in zip(METHODS, ("-", "--", "-."), strict=True):
            part = frame[(frame["clients"] == size) & (frame["method"] == method)]
            part = part.sort_values("round")
            at, mean = part["round"], part["accuracy_mean_percent"]
            spread = part["accuracy_std_1e-4"] / 100  # to per cent
            (line,) = axis.plot(at, mean, style, label=method)
            axis.fill_between(
                at, mean - spread, mean + spread, color=line.get_color(), alpha=0.2, lw=0
            )
        axis.set(title=f"n = {size} clients", xlabel="round", xlim=(0, frame["round"].max()))
        axis.grid(alpha=0.3)
    axes[0, 0].set(ylabel="accuracy of the clients, %", ylim=(lowest - 1, 100))
    axes[0, -1].legend(loc="lower right")
    by = f"{SLIP}, as in the paper" if divisor == PAPER else "n, equation (31)"
    figure.suptitle(
        f"MNIST 3 against 7, lambda = {WEIGHT:g}; the server divides by {by}\n"
        "mean over the clients, band of one standard deviation",
        fontsize=10,
    )
    plt.close(figure)  # a notebook shows the returned figure; once is enough
    return figure


def figure5_text(frame: pd.DataFrame) -> str:
    """The table of final accuracies, and the round from which FedProx stays below."""
    last = frame["round"].max()
    lines = [f"Accuracy after {last} rounds: mean in per cent, and standard deviation in 1e-4"]
    for size in sorted(frame["clients"].unique()):
        part = frame[frame["clients"] == size]
        mean = part.pivot(index="round", columns="method", values="accuracy_mean_percent")
        std = part.pivot(index="round", columns="method", values="accuracy_std_1e-4")
        for method in METHODS:
            lines.append(
                f"  n = {size:<5} {method:<12} {mean[method][last]:6.2f} {std[method][last]:8.2f}"
            )
        prox, *others = METHODS
        above = mean.index[mean[prox] >= mean[others].min(axis=1)]
        if len(above) == 0:
            said = "in every round"
        elif above[-1] == last:
            said = "not at the end"
        else:
            said = f"from round {above[-1] + 1} on"
        lines.append(f"  n = {size:<5} FedProx is below both others {said}")
    return "\n".join(lines)
