"""Draws one client's terms and constraints, around a point that is to stay feasible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import numpy as np

from tests.fuzz import atoms, rules
from tests.fuzz.atoms import Atom
from tests.fuzz.case import Unknown, array, run
from tests.fuzz.rules import Rule

ROOM = (0.2, 1.5)
"""By how much a bound misses the point, in ordinary units."""
DOMAIN = 0.05
"""What a positive vector is bounded below by where its atom does not do so itself."""


@dataclass(frozen=True)
class Space:
    """What a kind of variable offers the templates.

    Attributes
    ----------
    shape : tuple of int
    point : array
        Where the model is known to be feasible.
    vector, positive : str
        The entries as a vector, and a vector that is positive at the point, of ``{x}``.
    symmetric, definite, matrix : str or None
        The matrices of :mod:`tests.fuzz.atoms`.
    attributes : tuple of str
        What its variable may promise.
    """

    shape: tuple[int, ...]
    point: np.ndarray
    vector: str = "{x}"
    positive: str = "{x}"
    symmetric: str | None = None
    definite: str | None = None
    matrix: str | None = None
    attributes: tuple[str, ...] = ("", "", "", "nonneg=True", "pos=True", "bounds")


def draw_space(rng: np.random.Generator) -> Space:
    """A kind of variable, and a point."""
    kind = rng.choice(
        ["vector", "negative", "scalar", "square", "diagonal", "sparse", "oblong"],
        p=[0.62, 0.05, 0.08, 0.14, 0.03, 0.03, 0.05],
    )
    size = int(rng.integers(1, 5))
    entries = rng.uniform(0.3, 1.5, size).round(2)
    vec = "cp.vec({x}, order='F')"
    if kind == "vector":
        return Space((size,), entries)
    if kind == "negative":
        return Space((size,), -entries, "{x}", "-{x}", attributes=("", "nonpos=True", "neg=True"))
    if kind == "scalar":
        one = "cp.reshape({x}, (1,), order='F')"
        return Space((), entries[0], one, one)
    if kind == "oblong":
        plain = ("", "", "nonneg=True")
        point = rng.uniform(0.3, 1.5, (2, 3)).round(2)
        return Space((2, 3), point, vec, vec, matrix="{x}", attributes=plain)
    size = int(rng.integers(2, 4))
    if kind == "diagonal":
        point = np.diag(rng.uniform(0.3, 1.5, size).round(2))
        inner, whole = diagonal(size), "cp.diag(cp.diag({x}))"  # cvxpy's value of {x} is sparse
        return Space((size, size), point, inner, inner, whole, whole, whole, ("diag=True",))
    if kind == "sparse":
        point = np.tril(rng.uniform(0.3, 1.5, (size, size)).round(2))
        where = tuple(axis.tolist() for axis in np.nonzero(point))
        inner = diagonal(size)
        return Space(
            (size, size), point, inner, inner, matrix="{x}", attributes=(f"sparsity={where}",)
        )
    root = rng.uniform(-1, 1, (size, size)).round(1)
    point = (root @ root.T + 0.5 * np.eye(size)).round(2)
    some = ("symmetric=True", "symmetric=True", "PSD=True", "PSD=True")
    return Space((size, size), point, vec, "cp.diag({x})", "{x}", "{x}", "{x}", some)


def diagonal(size: int) -> str:
    """The diagonal of ``{x}`` as cvxpy 1.9.3 compiles it rightly.

    It takes ``cp.diag`` of a matrix for a column where a row is stacked: ``cp.vstack`` of two of
    them is their entries in another order, and can end the process.
    """
    return f"(np.eye({size}) @ cp.diag({{x}}))"


@dataclass
class Drawer:
    """Fills templates for one client; what it makes on the way is in its lists.

    Attributes
    ----------
    own : list of Unknown
        Variables that terms brought with them.
    terms, rules : list of str
    """

    rng: np.random.Generator
    space: Space
    x: str
    """The name of the variable, in ordinary units."""
    point: np.ndarray
    prefix: str
    own: list[Unknown] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    @property
    def vector(self) -> str:
        """The entries of the variable."""
        return self.space.vector.format(x=self.x)

    def number(self, low: float, high: float) -> float:
        """A number of few digits, as people write them."""
        return round(float(self.rng.uniform(low, high)), 2)

    def numbers(self, low: float, high: float, *shape: int) -> str:
        """An array of such."""
        return array(self.rng.uniform(low, high, shape).round(2))

    def value(self, code: str) -> Any:
        """What an expression is worth at the point."""
        x = cp.Variable(self.space.shape, symmetric=self.space.symmetric is not None)
        x.save_value(self.point)
        own = {one.name: cp.Variable(one.shape) for one in self.own}
        for variable in own.values():
            variable.save_value(np.ones(variable.shape))
        space = run(f"found = {code}", {"cp": cp, "np": np, self.x: x, **own})
        return space["found"].value

    def argument(self) -> str:
        """A vector that is affine in the variable."""
        forms, weights = zip(*atoms.ARGUMENTS, strict=True)
        form = forms[self.rng.choice(len(forms), p=np.array(weights) / sum(weights))]
        size, rows = self.value(self.vector).size, int(self.rng.integers(1, 4))
        return form.format(
            b=self.vector,
            A=self.numbers(-1, 1, rows, size),
            c=self.numbers(-1, 1, rows),
            d=self.numbers(0.3, 1.5, size),
        )

    def fits(self, code: str) -> bool:
        """Whether the client's variable has what a template needs."""
        has = {"S": self.space.symmetric, "D": self.space.definite, "M": self.space.matrix}
        return all(has[key] is not None for key in has if f"{{{key}}}" in code)

    def filled(self, *codes: str) -> list[str]:
        """Templates with their placeholders filled, the same in each."""
        space, v = self.space, f"({self.argument()})"
        n, positive = int(self.value(v).size), space.positive.format(x=self.x)
        root = self.rng.uniform(-1, 1, (n, n)).round(1)
        small = self.rng.uniform(-1, 1, (3, 3)).round(1)[: self.point.ndim and len(self.point)]
        given = {
            "v": v,
            "p": f"({positive})",
            "one": f"({positive})[0]",
            "n": n,
            "w": self.numbers(0.2, 1.5, n),
            "Q": array((root @ root.T + 0.3 * np.eye(n)).round(2)),
            "C": array((small @ small.T + 0.5 * np.eye(len(small))).round(2)),
            "a": self.number(0.3, 1.5),
            **{k: form and form.format(x=self.x) for k, form in self._matrices().items()},
        }
        if any("{t}" in code for code in codes):
            t, u = self._own("t", "nonneg=True"), self._own("u")
            self.rules += [f"{t} >= 0.5", f"{t} <= 2.0"]
            given |= {"t": t, "u": u}
        return [code.format(r="{r}", **given) for code in codes]

    def _matrices(self) -> dict[str, str | None]:
        return {"S": self.space.symmetric, "D": self.space.definite, "M": self.space.matrix}

    def _own(self, letter: str, attribute: str = "") -> str:
        name = f"{letter}{self.prefix}{len(self.own)}"
        self.own.append(Unknown(name, (), attribute, measured=False))
        return name

    def term(self) -> None:
        """Add a term with its weight, and what keeps its argument where it is defined."""
        atom = self._chosen(atoms.CATALOGUE)
        (code,) = self.filled(atom.code)
        weight = self.number(0.2, 2.0)
        if self.rng.random() < 0.08:
            self.terms.append(f"cp.Parameter(nonneg=True, value={weight}) * ({code})")
        else:
            self.terms.append(f"{weight} * ({code})")
        if atom.needs("p") or atom.needs("one"):
            if not (atom.barrier and self.rng.random() < 0.4):
                self.rules.append(f"{self.space.positive.format(x=self.x)} >= {DOMAIN}")
        elif atom.needs("D") and not atom.barrier:
            size = self.space.shape[0]
            self.rules.append(f"{self.x} >> {DOMAIN} * np.eye({size})")

    def rule(self) -> None:
        """Add a constraint that the point satisfies: of a cone, or a bound of a convex atom."""
        if self.rng.random() < 0.75:
            chosen: Rule = self._chosen(rules.CATALOGUE)
            code, measured = self.filled(chosen.code, chosen.measured)
            bound = self._bound(measured, chosen.bound)
        else:
            atom: Atom = self._chosen([one for one in atoms.CATALOGUE if not one.needs("t")])
            (code,) = self.filled(atom.code)
            bound = self._bound(code, "above")
            code = f"{code} <= {{r}}"
        if np.isfinite(bound):  # where the point is outside of its domain it has none
            self.rules.append(code.format(r=repr(bound)))

    def _bound(self, code: str, how: str) -> float:
        value, room = float(self.value(code)), self.number(*ROOM)
        return {"above": value + room, "below": value - room, "equal": value}[how]

    def _chosen(self, catalogue: Sequence[Any]) -> Any:
        fitting = [one for one in catalogue if self.fits(one.code)]
        if self.space.matrix is not None:  # half of what a matrix is asked concerns it as a matrix
            ours = [one for one in fitting if any(f"{{{k}}}" in one.code for k in "SDM")]
            fitting = ours if ours and self.rng.random() < 0.5 else fitting
        weights = np.array([one.weight for one in fitting])
        return fitting[self.rng.choice(len(fitting), p=weights / weights.sum())]

    def private(self) -> None:
        """Add a variable of the client's own, tied to the others."""
        v = self.argument()
        name = f"z{self.prefix}"
        self.own.append(Unknown(name, (int(self.value(v).size),), measured=False))
        self.terms.append(f"{self.number(0.3, 2.0)} * cp.sum_squares({name} - ({v}))")
        extra = [f"cp.norm1({name})", f"cp.sum(cp.pos({name} - 0.5))", f"cp.norm({name}, 2)"]
        self.terms.append(f"{self.number(0.2, 1.0)} * {self.rng.choice(extra)}")

    def anchor(self, how: str) -> None:
        """Add what gives the objective a minimum: a quadratic, or a box."""
        if how == "quadratic":
            size = self.value(self.vector).size
            centre = self.numbers(-2, 2, size)
            weight = self.number(0.3, 2.0)
            self.terms.append(f"{weight} * cp.sum_squares({self.vector} - {centre})")
            if self.space.symmetric is None and self.space.matrix is not None:
                self.terms.append(f"0.5 * cp.sum_squares({self.x})")
        elif how == "box":
            self.rules += [f"{self.x} <= {self.number(2, 5)}", f"{self.x} >= -{self.number(2, 5)}"]
