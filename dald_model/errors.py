"""The exceptions a user can cause, as one tree.

::

    DaldError
    ├── DeclarationError     a client, a variable or an edge that cannot be declared
    │   └── DisconnectedError the consensus graph leaves clients apart
    ├── DecompositionError   an ordinary problem in which no clients can be found
    ├── SequenceError        an order of clients that does not fit the consensus graph
    ├── OptionError          a wrong value of an option of ``solve``
    ├── ResultError          a question that this result cannot answer
    ├── RunError             a function of yours raised in a run; holds the result so far
    │   └── LostError        an engine lost clients and could not have them again
    ├── CopyError            a copy that would mean other variables
    └── DatasetError         data that cannot be found or read

    SequenceWarning          an order or a strategy that may not converge, and that is yours

Each message says what was given, what was expected and the remedy.
An error in the middle of a run, of whatever class, has an attribute ``result``: what the rounds
before have found.
"""

from typing import Any


class DaldError(Exception):
    """The root of every error that this package raises on purpose.

    Attributes
    ----------
    result : Result or None
        What the rounds before have found, if it was raised in the middle of a run.
    """

    result: Any = None


class DeclarationError(DaldError, ValueError):
    """A client, a variable or an edge cannot be declared as given."""


class DisconnectedError(DeclarationError):
    """The consensus graph is not connected, so no consensus can follow (Remark 1)."""


class DecompositionError(DaldError, ValueError):
    """An ordinary problem cannot be taken apart into clients."""


class SequenceError(DaldError, ValueError):
    """An order of clients does not fit the clients or their consensus graph."""


class OptionError(DaldError, ValueError):
    """An option of ``solve`` has a value that means nothing."""


class ResultError(DaldError, KeyError):
    """A result was asked for something that it does not hold."""

    def __str__(self) -> str:
        # KeyError prints the repr of its message; a sentence should stay a sentence.
        return str(self.args[0]) if self.args else ""


class RunError(DaldError, RuntimeError):
    """An exception in the middle of a run, of a function or an object that ``solve`` was given.

    It is the cause (``__cause__``) of this one.
    """


class LostError(RunError):
    """An engine lost clients in a run, and could not place them again.

    ``result`` has the rounds before, with status "lost"; None where it was before the first round.
    """


class CopyError(DaldError, TypeError):
    """An object is pickled or copied deeply, and the copy would mean other variables."""


class DatasetError(DaldError, RuntimeError):
    """A data set cannot be found or read."""


class SequenceWarning(UserWarning):
    """A choice of the user's may keep the run from converging."""
