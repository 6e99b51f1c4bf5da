"""Every convex and every concave atom of cvxpy is drawn, or left out for a stated reason."""

import inspect
from collections.abc import Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from tests.fuzz import atoms, rules
from tests.fuzz.case import run
from tests.fuzz.client import Drawer, Space
from tests.fuzz.draw import case

SQUARE = Space(
    (2, 2),
    np.eye(2) + 0.3,
    "cp.vec({x}, order='F')",
    "cp.diag({x})",
    "{x}",
    "{x}",
    "{x}",
    ("symmetric=True",),
)
"""Has all that templates may need."""


def _built(code: str, measured: str = "") -> Any:
    """A template with its placeholders filled, as cvxpy has it."""
    drawer = Drawer(np.random.default_rng(0), SQUARE, "x0", SQUARE.point, "0")
    filled, *rest = drawer.filled(*filter(None, (code, measured)))
    bound = float(drawer.value(rest[0])) + 0.5 if rest else 0.0
    names = {one.name: cp.Variable(one.shape, nonneg=True) for one in drawer.own}
    x = cp.Variable((2, 2), symmetric=True)
    text = filled.format(r=repr(bound))
    return run(f"found = {text}", {"cp": cp, "np": np, "x0": x, **names})["found"]


@pytest.fixture(scope="module")
def built() -> list[cp.Expression]:
    found = [_built(atom.code) for atom in atoms.CATALOGUE]
    return [one for one in found if isinstance(one, cp.Expression)]


def _classes(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from _classes(one)


ATOM = next(c for c in cp.norm1.__mro__ if c.__name__ == "Atom")
AFFINE = next(c for c in cp.reshape.__mro__ if c.__name__ == "AffAtom")
NONLINEAR = {
    one.__name__
    for one in _classes(ATOM)
    if not issubclass(one, AFFINE) and one.__module__.startswith("cvxpy.")
}


def test_the_templates_are_convex(built: list[cp.Expression]) -> None:
    assert len(built) == len(atoms.CATALOGUE)
    for atom, expression in zip(atoms.CATALOGUE, built, strict=True):
        assert expression.is_convex(), atom
        assert expression.is_scalar(), atom


def test_every_nonlinear_class_of_atoms_is_drawn_or_left_out(built: list[cp.Expression]) -> None:
    drawn = {one.__name__ for expression in built for one in expression.atoms()}
    assert drawn & set(atoms.EXCLUDED) == set()
    assert sorted(NONLINEAR - drawn - set(atoms.EXCLUDED)) == []
    assert sorted(set(atoms.EXCLUDED) - NONLINEAR) == [], "left out, but cvxpy has it not"


def test_every_function_of_atoms_is_drawn_or_left_out() -> None:
    functions = {
        name
        for name, found in vars(cp).items()
        if inspect.isfunction(found) and found.__module__.startswith("cvxpy.atoms.")
    }
    text = " ".join(atom.code for atom in atoms.CATALOGUE)
    drawn = {name for name in functions if f"cp.{name}(" in text}
    left = functions - drawn - set(atoms.EXCLUDED_FUNCTIONS) - set(atoms.AFFINE_FUNCTIONS)
    assert sorted(left) == []


def test_the_rules_are_convex_and_of_every_cone() -> None:
    found = [_built(rule.code, rule.measured) for rule in rules.CATALOGUE]
    for rule, constraint in zip(rules.CATALOGUE, found, strict=True):
        assert isinstance(constraint, cp.Constraint), rule
        assert constraint.is_dcp(), rule
    exported = {
        name
        for name, one in vars(cp).items()
        if inspect.isclass(one) and issubclass(one, cp.Constraint)
    }
    drawn = {type(constraint).__name__ for constraint in found}
    assert sorted(exported - drawn - set(rules.EXCLUDED)) == []


def test_a_case_is_that_of_its_seed() -> None:
    assert case(3) == case(3)
    assert case(3).script() == case(3).script() != case(4).script()
