"""The function ``resume``: a run goes on from the file that it was written to."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from dald_model.answer.result import Result
from dald_model.coordinate.checkpoint import Saved
from dald_model.errors import OptionError
from dald_model.model import Model
from dald_model.options import check_checkpoint
from dald_model.solve import solve
from dald_model.values import one_at_a_time

KEPT, AGAIN, FREE = "kept in the file", "given again if it was given", "free"
ON_RESUME = {
    "algorithm": KEPT,
    "disclose": KEPT,  # as the algorithm that it chose
    "sequence": KEPT,
    "stopping": KEPT,
    "rho": KEPT,
    "solver": KEPT,
    "accuracy": KEPT,
    "acceleration": KEPT,
    "online": KEPT,
    "engine": FREE,
    "checkpoint": FREE,
    "every": FREE,
    "start": KEPT,  # as the state of the run
    "starts": KEPT,
    "metrics": AGAIN,
    "callback": AGAIN,
    "eps_pri": KEPT,
    "eps_dual": KEPT,
    "gap": KEPT,
    "max_rounds": FREE,
    "time_limit": FREE,
    "verbose": FREE,
}
"""Option of ``solve`` -> what becomes of it; a kept one that no file can hold is given again."""


@one_at_a_time()
def resume(path: str | Path, model: Model, **options: Any) -> Result:
    """Go on with the run that ``solve(checkpoint=path)`` wrote, and keep on writing.

    In one process the iterates, the history and the answer are those of the run that was not
    interrupted, bit for bit, accelerated or not: the learned models of clients, what the safeguard
    keeps and who is absent when are in the file. On another machine, with another number of hosts
    of an engine, where a solver had failed on a client, or with another ``every`` or no checkpoint
    from here on, as clients' solvers begin anew with each, they are the same up to the accuracy of
    these solvers.

    Functions and objects of your own that count or draw for themselves, in ``metrics``, ``online``
    or ``rho``, begin anew.

    Parameters
    ----------
    path : path
    model : Model
        As it was, in a new process declared again: the same names, the same data and values of
        Parameters.
    **options
        Of :meth:`Model.solve`: ``engine``, ``verbose``, ``max_rounds``, ``every`` and
        ``checkpoint`` (a path, or None to write no more), as you like; the others are in the file,
        but for functions and objects of your own and sequences made of them, which have to be given
        again as they were. A ``callback`` that the run had is asked for, and may be another, or
        None.

    Returns
    -------
    Result

    Raises
    ------
    OptionError
        If the file cannot be read or is of another model, if an option is missing that it does not
        hold, or if one is given that it does hold.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> with TemporaryDirectory() as folder:
    ...     path, model = Path(folder, "run.npz"), common_number([0, 1, 2])
    ...     half = model.solve(checkpoint=path, max_rounds=1)
    ...     whole = dm.resume(path, model, max_rounds=100)
    >>> print(half.status, whole.status)
    round_limit optimal
    """
    if not isinstance(path, str | PathLike):
        raise OptionError(f"resume: given {path!r}, expected the path of a file such as 'run.npz'")
    if not isinstance(model, Model):
        raise OptionError(f"resume: given {model!r} as the model, expected a dm.Model")
    check_checkpoint(options.get("checkpoint"), options.get("every", 1))
    saved = _saved(Path(path), model)
    missing = [name for name in saved.again if name not in options]
    if missing:
        raise OptionError(
            f"resume: {path} cannot hold the option{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)} of its run; give them again as they were: "
            f"dm.resume(path, model, {', '.join(f'{name}=...' for name in missing)})"
        )
    free = [name for name, what in ON_RESUME.items() if what == FREE or name == "callback"]
    allowed = list(dict.fromkeys((*free, *saved.again)))
    for name in options:
        if name not in allowed:
            what = "which is in the file" if name in ON_RESUME else "no option"
            raise OptionError(
                f"resume: given {name}, {what}; expected some of {', '.join(allowed)}"
            )
    written = {"checkpoint": path, "every": saved.every}
    return solve(model, **{**saved.options, **written, **options}, start=saved)


def _saved(path: Path, model: Model) -> Saved:
    """What was written, on the topology of the model or on one chosen for its algorithm."""
    refusals = []
    for way in model.ways():
        compiled = way.compile()
        compiled.instantiate()
        try:
            return Saved.read(path, compiled)
        except OptionError as error:
            refusals.append(error)
    raise refusals[0]
