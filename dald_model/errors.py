"""The exceptions a user can cause, as one tree.

::

    DaldError
    ├── DeclarationError     a client, a variable or an edge that cannot be declared
    │   └── DisconnectedError the consensus graph leaves clients apart
    ├── DecompositionError   an ordinary problem in which no clients can be found
    ├── SequenceError        an order of clients that does not fit the consensus graph
    ├── OptionError          a wrong value of an option of ``solve``
    │   └── TopologyError    an algorithm for another topology than the model's
    ├── ResultError          a question that this result cannot answer
    ├── RunError             a function of yours raised in a run; holds the result so far
    │   └── LostError        an engine lost clients and could not have them again
    ├── CopyError            a copy that would mean other variables
    ├── DatasetError         data that cannot be found or read
    └── MissingError         a library that only an extra of this package installs

    SequenceWarning          an order or a strategy that may not converge, and that is yours

Each message says what was given, what was expected and the remedy.
An error in the middle of a run, of whatever class, has an attribute ``result``: what the rounds
before have found.
"""

from __future__ import annotations

import sys
from typing import Any


class DaldError(Exception):
    """The root of every error that this package raises on purpose.

    Attributes
    ----------
    result : Result or None
        What the rounds before have found, if it was raised in the middle of a run.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> model = common_number([0, 1, 2])
    >>> for options in ({"rho": -1}, {"start": "nowhere"}):  # one net for all of them
    ...     try:
    ...         _ = model.solve(**options)
    ...     except dm.DaldError as error:
    ...         print(type(error).__name__, error.result)
    OptionError None
    OptionError None
    """

    result: Any = None


class DeclarationError(DaldError, ValueError):
    """A client, a variable or an edge cannot be declared as given.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> try:
    ...     _ = dm.Model().client("a", cp.sqrt(cp.Variable()))
    ... except dm.DeclarationError as error:
    ...     print(error)
    client 'a': the objective ... is concave by cvxpy's DCP rules, expected convex ...
    """


class DisconnectedError(DeclarationError):
    """The consensus graph is not connected, so no consensus can follow (Remark 1).

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> x, model = [cp.Variable(name=f"x{i}") for i in range(4)], dm.Model("two")
    >>> for i in range(4):
    ...     _ = model.client(i, cp.square(x[i]))
    >>> model.consensus(x[0] == x[1], x[2] == x[3])
    >>> try:
    ...     _ = model.solve()
    ... except dm.DisconnectedError as error:
    ...     print(error)
    the consensus graph falls into 2 parts: {0, 1}; {2, 3}; expected one connected graph ...
    """


class DecompositionError(DaldError, ValueError):
    """An ordinary problem cannot be taken apart into clients.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import dald_model as dm
    >>> try:
    ...     _ = dm.decompose(cp.Problem(cp.Minimize(cp.square(cp.Variable()))))
    ... except dm.DecompositionError as error:
    ...     print(error)
    decompose: the problem is one piece and its objective one summand, ...
    """


class SequenceError(DaldError, ValueError):
    """An order of clients does not fit the clients or their consensus graph.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = common_number([0, 1, 2]).solve(sequence=dm.Sequence.levels([[0]]))
    ... except dm.SequenceError as error:
    ...     print(error)
    sequence: 1, 2, 'server' is never visited, so consensus cannot be reached ...
    """


class OptionError(DaldError, ValueError):
    """An option of ``solve`` has a value that means nothing, or does not exist.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = common_number([0, 1, 2]).solve(rho=-1)
    ... except dm.OptionError as error:
    ...     print(error)
    rho: given -1, expected positive finite numbers; ...
    """


class TopologyError(OptionError):
    """An algorithm runs over another topology than the one that the model was given.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> model = common_number([0, 1, 2])
    >>> model.topology("server")
    >>> try:
    ...     _ = model.solve(algorithm=dm.DGD(step=0.1))
    ... except dm.TopologyError as error:
    ...     print(error)
    algorithm: DGD is peer to peer, but 'mean' has the server 'server'; ...
    """


class ResultError(DaldError, KeyError):
    """A result was asked for something that it does not hold.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = common_number([0, 1, 2]).solve()["v"]
    ... except dm.ResultError as error:
    ...     print(error)
    result: 'v' is neither a variable nor a client; expected ...
    """

    def __str__(self) -> str:
        # KeyError prints the repr of its message; a sentence should stay a sentence.
        return str(self.args[0]) if self.args else ""


class RunError(DaldError, RuntimeError):
    """An exception in the middle of a run, of a function or an object that ``solve`` was given.

    It is the cause (``__cause__``) of this one.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = common_number([0, 1, 2]).solve(callback=lambda at: 1 / 0)
    ... except dm.RunError as error:
    ...     print(error)
    ...     print(error.result.status, error.result.rounds)
    callback: ... raised ZeroDivisionError (division by zero) after 1 round; ...
    user_error 1
    """


class LostError(RunError):
    """An engine lost clients in a run, and could not place them again.

    ``result`` has the rounds before, with status "lost"; None where it was before the first round.

    Examples
    --------
    >>> import dald_model as dm
    >>> issubclass(dm.LostError, dm.RunError)
    True
    """


class CopyError(DaldError, TypeError):
    """An object is pickled or copied deeply, and the copy would mean other variables.

    Examples
    --------
    >>> import pickle
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> try:
    ...     _ = pickle.dumps(common_number([0, 1, 2]))
    ... except dm.CopyError as error:
    ...     print(error)
    Model 'mean': cannot be pickled or sent to another process, since ...
    """


class DatasetError(DaldError, RuntimeError):
    """A data set cannot be found or read.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.datasets import load
    >>> try:
    ...     _ = load("nothing")
    ... except dm.DatasetError as error:
    ...     print(error)
    There is no data set 'nothing'. Expected: one of diabetes, california, wine, ...
    """


class MissingError(DaldError, ImportError):
    """A library is missing that only an extra of this package installs.

    Examples
    --------
    >>> import dald_model as dm
    >>> from dald_model.lazy_imports import optional
    >>> try:
    ...     _ = optional("no_such_library", "plot", "draw")
    ... except dm.MissingError as error:
    ...     print(error)
    draw: the library no_such_library is not installed; expected it beside dald_model: pip ...
    """


class SequenceWarning(UserWarning):
    """A choice of the user's may keep the run from converging.

    Examples
    --------
    >>> import warnings
    >>> import dald_model as dm
    >>> from dald_model.models.mean import common_number
    >>> side_by_side = {"sequence": dm.Sequence.jacobi(), "stopping": dm.FixedBudget(1)}
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     _ = common_number([0, 1, 2]).solve(max_rounds=1, **side_by_side)
    >>> print(found[0].message)
    Sequence('Jacobi') with FixedBudget(v_max=1) may diverge: neighbours are solved ...
    """


def users_line(*through: str) -> int:
    """The stack level, as its caller tells ``warnings.warn``, of the user's line that led here.

    Lines of this package and of ``contextlib``, whose decorators stand between, are none of the
    user's, nor are those of other packages that the call went ``through``.
    """
    others = ("dald_model", "contextlib", *through)
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(others):
        frame, level = frame.f_back, level + 1
    return level
