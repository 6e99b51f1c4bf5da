"""A drawn model: a few choices that print themselves as a program.

What is run is what is printed, so a failure is a script from the start. The data are in ordinary
units, about 1; :class:`Units` says in which units the user measures, and the script converts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np

import dald_model as dm


@dataclass(frozen=True)
class Units:
    """The user's objective is s f, and the user's variable y = u (x + o)."""

    objective: float = 1.0
    variable: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Unknown:
    """A variable: its shape and its attributes; ``bounds`` are in ordinary units.

    ``measured`` says whether it is in the user's units: what clients agree on is, what a client
    keeps for itself stays as it is.
    """

    name: str
    shape: tuple[int, ...]
    attribute: str = ""
    bounds: tuple[float, float] | None = None
    measured: bool = True

    def code(self, units: Units) -> list[str]:
        """Its declaration, ``y0 = ...``, and ``x0``, what it is in ordinary units."""
        attribute, scale, offset = self.attribute, units.variable, units.offset
        if self.bounds is not None:
            low, high = (scale * (bound + offset) for bound in self.bounds)
            attribute = f"bounds=[{low!r}, {high!r}]"
        elif offset and self.measured and attribute in SIGNS:
            attribute = ""
        given = ", ".join(filter(None, [str(self.shape), f'name="{self.name}"', attribute]))
        lines = [f"{self.name} = cp.Variable({given})"]
        if not self.measured:
            return lines
        if scale == 1 and not offset:
            return [*lines, f"{self.ordinary} = {self.name}"]
        shift = f" - {offset!r}" if offset else ""
        if len(self.shape) == 2:  # of a quotient cvxpy does not know that it is symmetric
            return [*lines, f"{self.ordinary} = {1 / scale!r} * {self.name}"]
        ratio = f" / {scale!r}" if scale != 1 else ""
        return [*lines, f"{self.ordinary} = {self.name}{ratio}{shift}"]

    def rules(self, units: Units) -> list[str]:
        """The attributes that an offset turns into constraints."""
        if units.offset and self.measured and self.attribute in SIGNS:
            return [f"{self.ordinary} {SIGNS[self.attribute]} 0"]
        return []

    @property
    def ordinary(self) -> str:
        """The name of the expression in ordinary units."""
        return "x" + self.name[1:] if self.measured else self.name


SIGNS = {"nonneg=True": ">=", "pos=True": ">=", "nonpos=True": "<=", "neg=True": "<="}


@dataclass(frozen=True)
class Owner:
    """A client: the names of its variables, the terms of its objective and its constraints."""

    name: str
    unknowns: tuple[str, ...]
    terms: tuple[str, ...]
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """A consensus equality of two sides in ordinary units; bare variables are taken as they are."""

    left: str
    right: str


@dataclass(frozen=True)
class Case:
    """A model, the options of its solve, and how it was drawn."""

    seed: int
    unknowns: tuple[Unknown, ...]
    owners: tuple[Owner, ...]
    links: tuple[Link, ...] = ()
    topology: tuple[tuple[str, str], ...] = ()
    maximises: bool = False
    units: Units = Units()
    options: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()

    @property
    def ordinary(self) -> Case:
        """The same model in ordinary units."""
        return replace(self, units=Units())

    @property
    def movable(self) -> bool:
        """Whether the origin can move: the structure of a matrix would not survive it."""
        return all(len(one.shape) < 2 for one in self.unknowns if one.measured)

    def declaration(self) -> str:
        """The variables, and each client's cost and constraints: plain cvxpy."""
        lines = [line for one in self.unknowns for line in one.code(self.units)]
        lines.append("clients = {")
        for owner in self.owners:
            mine = [one for one in self.unknowns if one.name in owner.unknowns]
            rules = [*owner.rules, *(rule for one in mine for rule in one.rules(self.units))]
            cost = "\n        + ".join(owner.terms) or "cp.Constant(0.0)"
            if self.units.objective != 1:
                cost = f"{self.units.objective!r} * ({cost})"
            lines += [f'    "{owner.name}": (', f"        {cost},"]
            lines += [
                "        [",
                *(f"            {rule}," for rule in rules),
                "        ],",
                "    ),",
            ]
        return "\n".join(
            [*lines, "}", f"consensus = [{', '.join(map(self._equality, self.links))}]"]
        )

    def _equality(self, link: Link) -> str:
        names = {one.ordinary: one for one in self.unknowns}
        if link.left in names and link.right in names:
            return f"{names[link.left].name} == {names[link.right].name}"
        scale = f"{self.units.variable!r} * " if self.units.variable != 1 else ""
        return f"{scale}({link.left}) == {scale}({link.right})"

    def model(self) -> str:
        """The model made of the declaration."""
        goal = "cp.Maximize(-(cost))" if self.maximises else "cp.Minimize(cost)"
        lines = [
            f'model = dm.Model("seed {self.seed}")',
            "for name, (cost, rules) in clients.items():",
            f"    model.client(name, {goal}, rules)",
        ]
        if self.links:
            lines.append("model.consensus(*consensus)")
        if self.topology:
            lines.append(f"model.topology(nx.Graph({list(self.topology)!r}))")
        return "\n".join(lines)

    def solve(self) -> str:
        """The call."""
        return f"model.solve({', '.join(f'{name}={value}' for name, value in self.options)})"

    def script(self) -> str:
        """The whole as a program that says what came out, here and all in one."""
        total = "sum(cost for cost, _ in clients.values())"
        parts = [
            "import cvxpy as cp\nimport networkx as nx\nimport numpy as np\n",
            "import dald_model as dm\n",
            self.declaration(),
            self.model(),
            f"result = {self.solve()}",
            "print(result)",
            "print(result.verify())",
            "rules = consensus + [rule for _, rules in clients.values() for rule in rules]",
            f"print(cp.Problem(cp.Minimize({total}), rules).solve(solver=cp.CLARABEL))",
        ]
        return "\n".join(parts) + "\n"


def run(code: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run a part of a case's program; returns its names."""
    space: dict[str, Any] = {"cp": cp, "np": np, "nx": nx, "dm": dm} if names is None else names
    exec(compile(code, "<case>", "exec"), space)
    return space


def array(value: Any) -> str:
    """Data as a program writes them."""
    return f"np.array({np.asarray(value).tolist()!r})"
