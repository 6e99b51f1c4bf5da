"""Objects that know cvxpy's variables and constraints by their ids, and so cannot be pickled."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self

from dald_model.errors import CopyError


class NotPicklable:
    """A class whose objects are tied to the cvxpy objects of this process.

    cvxpy numbers its variables from 1 on in each process, so what is pickled here would belong to
    other variables there, and silently; and a deep copy has variables that nobody can name, while
    what is compiled still means the old ones. Both are refused. A shallow copy is as usual.

    Attributes
    ----------
    elsewhere, again : str
        What to do instead of sending the object to another process, and of copying it deeply.
    """

    elsewhere: ClassVar[str] = "build the model there, by a function that returns it"
    again: ClassVar[str] = "build the model again, by a function that returns it"

    def __copy__(self) -> Self:
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__)
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        raise CopyError(
            f"{self._called}: a deep copy has cvxpy variables of its own, which none of "
            f"your names means; expected no deep copy; {self.again}"
        )

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise CopyError(
            f"{self._called}: cannot be pickled or sent to another process, since cvxpy numbers "
            "the variables of each process anew and would take others for these; expected data; "
            f"{self.elsewhere}"
        )

    @property
    def _called(self) -> str:
        name = getattr(self, "name", None)
        return type(self).__name__ if name is None else f"{type(self).__name__} {name!r}"
