"""Plots of residuals, gaps and metrics against rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Protocol

from dald_model.coordinate.status import Status
from dald_model.lazy_imports import optional, pd
from dald_model.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Plotted(Protocol):
    """What is plotted of a run: a result, or a saved answer."""

    history: pd.DataFrame
    status: Status
    rounds: int
    answer_round: int
    eps_pri: float
    eps_dual: float


def result_plot(result: Plotted, name: str) -> Figure:
    """Residuals, objective gap and penalty against rounds, as three panels.

    The residuals are those that are held against the tolerances, with a cross where the proposal
    that a round began at was taken back; the gap is to the value of the run's own answer, relative
    to the largest of the run.
    """
    plt = optional("matplotlib.pyplot", "plot", "plot")
    ticker = optional("matplotlib.ticker", "plot", "plot")

    history = result.history
    end = result.answer_round or result.rounds
    final = history.objective[end]
    away = (history.objective - final).abs()
    gap = away / (away.max() or 1.0)

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharex=True, layout="constrained")
    residuals, objective, penalty = axes

    def draw(axis: Axes, curve: pd.Series, **style: Any) -> None:
        seen = curve[curve > 0]  # a logarithmic axis has no zero, and refuses to be empty
        if seen.size:
            axis.set_yscale("log")
        # A line through a single round would not be seen.
        axis.plot(seen.index, seen, marker="." if result.rounds <= 60 else "", **style)

    draw(residuals, history.primal_scaled, label=r"primal, $\|\mathcal{C}\|_\infty$")
    draw(residuals, history.dual_scaled, ls="--", label=r"dual, $\|\mathcal{D}\|_\infty$")
    back = history[history.proposal.str.endswith("taken back")]
    worst = back[["primal_scaled", "dual_scaled"]].max(axis=1).dropna()
    if worst.size:
        residuals.plot(worst.index, worst, "x", color="tab:red", ms=4, label="taken back")
    for tolerance in {result.eps_pri, result.eps_dual} - {0}:
        residuals.axhline(tolerance, color="gray", lw=1, label=f"tolerance {tolerance:.0e}")
    residuals.set(title="Residuals", ylabel="relative residual")
    draw(objective, gap)
    objective.set(
        title="Objective gap", ylabel=r"$|f - f_\mathrm{end}| \,/\, \max |f - f_\mathrm{end}|$"
    )
    draw(penalty, history.rho, drawstyle="steps-mid")
    penalty.set(title="Penalty", ylabel=r"$\rho$, geometric mean")
    for axis in axes:
        axis.set(xlabel="round", xlim=(0, result.rounds + 1))
        axis.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
        axis.grid(alpha=0.3)
        if end < result.rounds:
            axis.axvline(end, color="gray", ls=":", label="the answer")
    # Two decades at least, so that a penalty that hardly changes has a number on its axis.
    penalty.set_ylim(history.rho.min() / 10, history.rho.max() * 10)
    residuals.legend()
    figure.suptitle(
        f"{name}: {result.status}, {counted(result.rounds, 'round')}",
        parse_math=False,  # a dollar in a name is a dollar
    )
    plt.close(figure)  # a notebook shows the returned figure; once is enough
    return figure


def comparison_plot(
    name: str, histories: Mapping[str, pd.DataFrame], metrics: Sequence[str]
) -> Figure:
    """The objective gap against rounds and against what was sent, and each metric against rounds.

    Each curve has a dash of its own, so that none hides another. A gap is shown until it is below
    1e-12, where rounding is all that is left.
    """
    plt = optional("matplotlib.pyplot", "plot", "plot")

    figure, axes = plt.subplots(
        1, 2 + len(metrics), figsize=(4.2 * (2 + len(metrics)), 4.0), layout="constrained"
    )
    # Seven, so that they differ from ten colours' turns: seventy curves are told apart
    strokes = (6, 2), (3, 2), (1, 1.5), (6, 2, 1, 2), (10, 2), (6, 2, 1, 1, 1, 2)
    dashes = cycle(("-", *((0, stroke) for stroke in strokes)))
    for (label, history), dash in zip(histories.items(), dashes, strict=False):
        gap = history.gap[history.gap > 1e-12]
        dots = "." if len(gap) < 3 else ""  # a line through a single round would not be seen
        axes[0].plot(gap.index, gap, label=label, ls=dash, marker=dots)
        axes[1].plot(history.sent[gap.index] / 1e6, gap, label=label, ls=dash, marker=dots)
        for axis, metric in zip(axes[2:], metrics, strict=True):
            axis.plot(history.index, history[metric], label=label, ls=dash)
    for axis, label in zip(axes[:2], ("round", "MB sent"), strict=True):
        axis.set(yscale="log", xlabel=label, ylabel=r"$|F(x) - F^*| \,/\, V$")
    axes[0].set_title("Objective gap against rounds")
    axes[1].set_title("... and against what is sent")
    for axis, metric in zip(axes[2:], metrics, strict=True):
        axis.set(xlabel="round", title=metric)
        # What a first round had, mostly of all zeros, would flatten all that comes after
        after = pd.concat([history[metric].iloc[1:] for history in histories.values()])
        least, most = after.min(), after.max()
        margin = 0.05 * (most - least)
        if 0 < margin < math.inf:
            axis.set_ylim(least - margin, most + margin)
    for axis in axes:
        axis.grid(alpha=0.3)
    # Many curves cross every panel: below them the legend hides none.
    room = 13 * figure.get_figwidth() / (6 + max(map(len, histories)))  # names in a row
    columns = max(1, min(5, int(room)))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns)
    figure.suptitle(name, parse_math=False)  # a dollar in a name is a dollar
    plt.close(figure)  # a notebook shows what a cell returns; open figures would show twice
    return figure


def verification_plot(title: str, rows: Sequence[tuple[str, float, float | None]]) -> Figure:
    """What was measured beside what is allowed, one line a check; what is only told is grey.

    Figures below 1e-12 stand at its edge, and infinite ones at the other.
    """
    plt = optional("matplotlib.pyplot", "plot", "plot")

    least, most = 1e-12, 1e1
    figure, axis = plt.subplots(figsize=(6.4, 0.9 + 0.32 * len(rows)), layout="constrained")
    for at, (_, measured, allowed) in enumerate(rows):
        shown = min(max(measured, least), most)
        is_ok = allowed is None or measured <= allowed
        colour = "0.55" if allowed is None else "tab:green" if is_ok else "tab:red"
        axis.plot([least, shown], [at, at], color=colour, lw=2)
        axis.plot([shown], [at], "o" if is_ok else "X", color=colour, ms=7)
        if allowed:
            axis.plot([allowed], [at], "|", color="tab:blue", ms=16, mew=2)
    axis.plot([], [], "|", color="tab:blue", ms=10, mew=2, ls="", label="allowed")
    axis.plot([], [], "o", color="tab:green", ls="", label="measured, ok")
    axis.plot([], [], "X", color="tab:red", ls="", label="measured, failed")
    axis.plot([], [], "o", color="0.55", ls="", label="informational")
    axis.set_yticks(range(len(rows)), [check for check, _, _ in rows])
    axis.set(xscale="log", xlim=(least / 2, 2 * most))
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(title, fontsize=11, parse_math=False)  # a dollar in a name is a dollar
    plt.close(figure)  # as in result_plot
    return figure
