"""Glossary, README and manual: each name of the code in them exists, each room has its line."""

import importlib
import re
from pathlib import Path

import pytest

import dald_model
from tests.paths import MANUAL

PACKAGE = Path(dald_model.__file__).parent
README = PACKAGE.parent / "README.md"
GLOSSARY = PACKAGE / "GLOSSARY.md"
NAMES = sorted(
    {
        name
        for file in (GLOSSARY, README, *MANUAL.glob("*.md"))
        for name in re.findall(r"`(dald_model(?:\.\w+)+)`", file.read_text())
    }
)


def found(name: str) -> object:
    """The module, class or attribute of a dotted name; annotated attributes count."""
    parts = name.split(".")
    for at in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:at]))
        except ModuleNotFoundError:
            continue
        for part in parts[at:]:
            declared = getattr(thing, "__annotations__", {})
            thing = getattr(thing, part) if part not in declared else declared[part]
        return thing
    raise ModuleNotFoundError(name)


def test_there_are_names_to_check() -> None:
    assert len(NAMES) > 40


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_mentioned_exists(name: str) -> None:
    assert found(name) is not None


def test_the_manual_has_a_line_for_every_room() -> None:
    folders = [one for one in PACKAGE.iterdir() if (one / "__init__.py").is_file()]
    rooms = {f"{one.relative_to(PACKAGE.parent)}/" for one in folders if not one.is_symlink()}
    text = (MANUAL / "development.md").read_text().split("## Where things are")[1]
    missing = {room for room in rooms | {"models/", "solvers/"} if f"`{room}`" not in text}
    assert not missing
