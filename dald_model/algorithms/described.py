"""What an algorithm says of itself: its choices of DALD's parts."""

from __future__ import annotations

from typing import Any, NamedTuple

from dald_model.validate import is_number

UPDATE = "mu + 2 rho o rho o C after every sweep, (15), (22)"
EXACT = "exact minimisation, or the option solver"


class Choices(NamedTuple):
    """The arguments as they are printed, and the choices, with equation numbers."""

    arguments: str
    coordination: str
    mu: str = UPDATE
    rho: str = "the option rho"
    layer: str = EXACT


class Described:
    """An algorithm that is described by its :class:`Choices`."""

    def _says(self) -> Choices:
        raise NotImplementedError

    def _given(self, *names: str) -> str:
        """Arguments with their values."""
        return ", ".join(f"{name}={told(getattr(self, name))}" for name in names)

    def explain(self) -> str:
        """See :class:`dald_model.coordinate.method.Algorithm`."""
        says = self._says()
        return "\n".join(
            [
                f"{type(self).__name__}({says.arguments}) is DALD with",
                f"  mu            {says.mu}",
                f"  rho           {says.rho}",
                f"  coordination  {says.coordination}",
                f"  solver layer  {says.layer}",
            ]
        )


def told(given: Any) -> str:
    """An argument as it is printed."""
    if is_number(given):
        return f"{given:g}"
    return "a function of the round" if callable(given) else repr(given)
