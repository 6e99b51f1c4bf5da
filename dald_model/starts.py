"""Several starting points of a model with clients that are not convex, of which the best counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dald_model.answer.result import Result
from dald_model.coordinate.status import Status
from dald_model.deadline import seconds_left, within
from dald_model.errors import OptionError
from dald_model.starting import drawn
from dald_model.validate import check_whole


def from_starts(solve: Callable[..., Result], options: Mapping[str, Any]) -> Result:
    """Solve from each start with the same options, and return the best result.

    The best is the lowest objective among the stationary results, else the first result; all are
    its attribute ``runs``, in the order of the starts. A ``time_limit`` is for all together: once
    it has passed no further start is tried.

    Raises
    ------
    OptionError
        If ``starts`` is no whole number from 1, or the model is convex, whose optimum does not
        depend on the start.
    """
    model, starts = options["model"], options["starts"]
    check_whole("starts: given ", starts)
    compiled = model.compile()
    if compiled.is_convex:
        raise OptionError(
            f"starts: given {starts!r}, but every client of {compiled.model.name!r} is convex, so "
            "the optimum does not depend on the start; leave starts out, or declare a client with "
            "nonconvex=True"
        )
    if options["start"] is not None:
        raise OptionError(
            f"starts: given {starts!r} and a start=, expected one of the two; the first of the "
            "starts is the variables' value, so leave start out"
        )
    variables, runs = compiled.model.variables, []
    with within(options["time_limit"]):
        for values in drawn(variables, starts):
            if runs and seconds_left() <= 0:
                break
            for v in variables:
                v.save_value(values[v.id])
            runs.append(solve(**dict(options) | {"starts": None}))
    sense = compiled.sense
    found = [run for run in runs if run.status is Status.STATIONARY]
    best = min(found, key=lambda run: sense * run.value, default=runs[0])
    best.runs = tuple(runs)
    best.apply()
    return best
