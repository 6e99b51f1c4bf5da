"""Programs of other tools as models: MPS and LP files, linopy models."""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.errors import DecompositionError
from dald_model.matrices import from_matrices
from dald_model.model import Model
from dald_model.text import listed


def from_mps(path: str | PathLike[str], *, owners: Any, name: str | None = None) -> Model:
    r"""An MPS or LP file, as HiGHS reads it, as a model whose columns have owners.

    Parameters
    ----------
    path : path
        Of a linear or convex quadratic program; the package ``highspy`` reads it.
    owners : callable, sequence, dict or int
        A function from a column's name to its owner, ``lambda name: name.split("_")[0]``; or as
        for :func:`from_matrices`.
    name : str
        The model's name, by default the file's.

    Raises
    ------
    DecompositionError
        If the file cannot be read, or has integer columns; and as :func:`from_matrices`.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import dald_model as dm
    >>> lines = ["Minimize", " 3 a_x + b_y", "Subject To", " demand: a_x + b_y >= 4"]
    >>> lines += ["Bounds", " 0 <= a_x <= 9", " 0 <= b_y <= 3", "End"]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "plants.lp")
    ...     _ = path.write_text("\n".join(lines))
    ...     model = dm.from_mps(path, owners=lambda name: name[0])
    >>> print(list(model.clients), round(model.solve().value, 4))
    ['a', 'b'] 6.0
    """
    highspy = _library("highspy", "from_mps")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(path)) == highspy.HighsStatus.kError:
        raise DecompositionError(
            f"from_mps: HiGHS cannot read {path}; expected the path of an MPS or LP file"
        )
    program, hessian = solver.getLp(), solver.getModel().hessian_
    integer = [at for at, kind in enumerate(program.integrality_) if kind.value != 0]
    names = list(program.col_names_)
    if integer:
        raise DecompositionError(
            f"from_mps: {path} has {len(integer)} integer columns, such as {names[integer[0]]!r}; "
            "expected continuous ones, relax them first"
        )
    held, shape = program.a_matrix_, (program.num_row_, program.num_col_)
    make = sp.csc_array if held.format_ == highspy.MatrixFormat.kColwise else sp.csr_array
    rows = make((np.array(held.value_), np.array(held.index_), np.array(held.start_)), shape=shape)
    bend = None
    if hessian.dim_:
        parts = np.array(hessian.value_), np.array(hessian.index_), np.array(hessian.start_)
        lower = sp.csc_array(parts, shape=(hessian.dim_, hessian.dim_))
        bend = lower + sp.tril(lower, -1).T
    return from_matrices(
        program.col_cost_,
        rows,
        program.row_lower_,
        program.row_upper_,
        lower=program.col_lower_,
        upper=program.col_upper_,
        quadratic=bend,
        constant=program.offset_,
        maximise=program.sense_ == highspy.ObjSense.kMaximize,
        owners=[owners(name) for name in names] if callable(owners) else owners,
        name=name or program.model_name_ or str(path),
    )


def from_linopy(program: Any, *, by: Any, name: str = "linopy") -> Model:
    """A linopy model, as PyPSA makes them, as a model with a client for each label of a dimension.

    ``result["x"]`` is in the order of linopy's active variables, ``program.matrices.vlabels``.

    Parameters
    ----------
    program : linopy.Model
        Linear or convex quadratic, without integers and indicators.
    by : str or callable
        A dimension, ``"region"``: who is its label owns what stands there, and each variable
        without it is an owner by itself, named as it is; or a function from a variable's name and
        its coordinates, a dict, to the owner: ``lambda name, at: at["bus"][:2]``.
    name : str
        The model's name.

    Raises
    ------
    DecompositionError
        If no variable has the dimension, or some are integer; and as :func:`from_matrices`.

    Examples
    --------
    See the manual, "Models of other tools".

    >>> import dald_model as dm
    >>> try:
    ...     dm.from_linopy("plants.nc", by="region")
    ... except dm.DecompositionError as error:
    ...     print(error)
    from_linopy: given str, expected a linopy.Model
    """
    if not hasattr(program, "matrices") or not hasattr(program, "variables"):
        raise DecompositionError(
            f"from_linopy: given {type(program).__name__}, expected a linopy.Model"
        )
    held = program.matrices
    if any(kind != "C" for kind in held.vtypes):
        raise DecompositionError(
            "from_linopy: the model has binary, integer or semi-continuous variables, expected "
            "continuous ones; relax them first"
        )
    found: dict[int, Hashable] = {}
    dimensions: set[Hashable] = set()
    for variable, array in program.variables.items():
        labels = array.labels.to_series() if array.labels.ndim else None
        dimensions |= set(array.labels.dims)
        if labels is None:
            found[int(array.labels)] = by(variable, {}) if callable(by) else variable
            continue
        levels = list(labels.index.names)
        for key, label in labels.items():
            at = dict(zip(levels, key if isinstance(key, tuple) else (key,), strict=True))
            found[int(label)] = by(variable, at) if callable(by) else at.get(by, variable)
    if not callable(by) and by not in dimensions:
        raise DecompositionError(
            f"from_linopy: by: no variable has the dimension {by!r}, expected one of "
            f"{listed(sorted(map(str, dimensions)))}, or a function from a variable's name and its "
            "coordinates to its owner"
        )
    sense = np.asarray(held.sense)
    return from_matrices(
        held.c,
        held.A,
        np.where(sense == "<", -np.inf, held.b),
        np.where(sense == ">", np.inf, held.b),
        lower=held.lb,
        upper=held.ub,
        quadratic=held.Q,
        maximise=program.objective.sense == "max",
        owners=[found[int(label)] for label in held.vlabels],
        name=name,
    )


def _library(name: str, where: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise DecompositionError(
            f"{where}: the package {name} is missing; install it by pip install {name}"
        ) from error
