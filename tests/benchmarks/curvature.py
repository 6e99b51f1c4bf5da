"""Table 20: whole jobs by ``disclose="curvature"`` over the best right all-in-one solve."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import NamedTuple

from tests.benchmarks.real import Found, all_in_one, clocked, right
from tests.benchmarks.real_cases import Case, Network, real, small

TURNS = 2
"""Times that each is run, in turns; the least seconds count."""
SHORT = 5.0
"""Seconds beyond which once is enough."""


class Line(NamedTuple):
    """One model: its title, ours, the seconds of its compile, and the fastest that is right."""

    title: str
    own: Found
    compiling: float
    solver: str
    pooled: Found

    @property
    def ratio(self) -> float:
        """Of processor times, ours over theirs."""
        return self.own.seconds / self.pooled.seconds


def whole_job(one: Case | Network) -> tuple[Found, float]:
    """Compile and solve, and the seconds of the first."""
    model = one.model()
    _, compiling = clocked(model.compile)
    result, solving = clocked(lambda: model.solve(disclose="curvature"))
    said = str(result.status)
    return Found(compiling + solving, result.value, said, result.rounds), compiling


def line(one: Case | Network) -> Line:
    """Ours against each of cvxpy's solvers, in turns."""
    jobs = [whole_job(one)]
    pooled: dict[str, Found] = {}
    for turn in range(TURNS):
        if turn and jobs[-1][0].seconds < SHORT:
            jobs.append(whole_job(one))
        for solver in one.solvers:
            if turn and (solver not in pooled or pooled[solver].seconds > SHORT):
                continue
            found = all_in_one(one, solver)
            if found and (solver not in pooled or found.seconds < pooled[solver].seconds):
                pooled[solver] = found
    own, compiling = min(jobs, key=lambda job: job[0].seconds)
    best = min([own.value, *(found.value for found in pooled.values())])
    solver, fastest = min(right(list(pooled.items()), best), key=lambda pair: pair[1].seconds)
    return Line(one.title, own, compiling, solver, fastest)


def table(full: bool) -> str:
    """The rows and what they come to; ``full`` has those that take minutes."""
    cases: Sequence[Case | Network] = [*small(), *real(full)]
    head = "| model | rounds | gap | ours, s | of it compile | best AIO, s | by | ratio |"
    rows, lines = [head, "|---|---|---|---|---|---|---|---|"], []
    for one in cases:
        found = line(one)
        lines.append(found)
        own, gap = found.own, found.own.value / found.pooled.value - 1
        cells = (
            f"{found.title} | {own.rounds} {own.said} | {gap:.0e} | {own.seconds:.3f} | "
            f"{found.compiling:.3f} | {found.pooled.seconds:.3f} | {found.solver} | "
            f"{found.ratio:.2f}"
        )
        rows.append(f"| {cells} |")
        print(rows[-1], flush=True)
    ratios = [one.ratio for one in lines]
    said = f"Geometric mean {geometric_mean(ratios):.2f}, worst {max(ratios):.2f}."
    return "\n".join(["## Table 20: curvature shared", "", *rows, "", said, ""])


if __name__ == "__main__":
    print(table(False))
