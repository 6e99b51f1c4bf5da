"""Constructions that a reader has to decode are in no text for users.

Each pattern is one of the constructions that were collected from earlier versions of the manual: a
sentence about "who" or "what" that is no question, "a" for "per", and terms of this package's own
for ideas that the field has words for.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dald_model as dm
from dald_model import engines, estimators, solvers
from tests.paths import GALLERY, MANUAL, ROOT

UNITS = "client|round|sweep|step|second|update|solve|entry|hour|turn|constraint|host|worker|site"
COUNTED = (
    "rows?|bytes|numbers|rounds|seconds|ms|s|solves?|steps?|sweeps?|iterations?|problem|factor"
)
OWN_TERMS = "watchdog|foretold|foretell|exemplar|learnt|survey|whoever|mostly"
PATTERNS = {
    "a sentence about who or what": re.compile(
        r"(?:^|[.!?]\s+|\n\n|\| )(?:Who|Whose|What|Whoever)\b[^?|\n]*\.(?:\s|$)", re.MULTILINE
    ),
    "a for per": re.compile(rf"\b(?:{COUNTED}) an? (?:{UNITS})\b"),
    "an own term": re.compile(rf"\b(?:{OWN_TERMS})\b", re.IGNORECASE),
}
QUOTED = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
"""Code and output, of which no sentence is asked."""
PAGES = [ROOT / "README.md", *sorted(MANUAL.glob("*.md"))]
PACKAGES = (dm, solvers, engines, estimators)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))


def unclear(text: str) -> Iterator[str]:
    for name, pattern in PATTERNS.items():
        for found in pattern.finditer(text):
            yield f"{name}: {found[0].strip()[:80]}"


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_pages(page: Path) -> None:
    assert not [*unclear(QUOTED.sub("", page.read_text()))]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[each.stem for each in NOTEBOOKS])
def test_notebooks(notebook: Path) -> None:
    cells = re.split(r"^# %%", notebook.read_text(), flags=re.MULTILINE)
    prose = "\n\n".join(cell for cell in cells if cell.startswith(" [markdown]"))
    assert not [*unclear(re.sub(r"^# ?", "", prose, flags=re.MULTILINE))]


@pytest.mark.parametrize("file", sorted(GALLERY.glob("[!_]*.py")), ids=lambda file: file.stem)
def test_gallery(file: Path) -> None:
    assert not [*unclear(file.read_text())]


@pytest.mark.parametrize(
    "package", [dm, solvers, engines, estimators], ids=lambda one: one.__name__
)
def test_docstrings_of_public_names(package: object) -> None:
    found = {}
    for name in package.__all__:  # pyright: ignore[reportAttributeAccessIssue]
        thing = getattr(package, name)
        members = vars(thing).items() if inspect.isclass(thing) else []
        texts = [thing.__doc__, *(one.__doc__ for at, one in members if not at.startswith("_"))]
        lines = [line for text in texts if text for line in unclear(QUOTED.sub("", text))]
        if lines:
            found[name] = lines
    assert not found


def test_messages_of_statuses() -> None:
    assert not [line for status in dm.Status for line in unclear(status.message)]


def test_a_method_without_words_is_that_of_a_documented_one() -> None:
    """An override says what its base or protocol says, and every other public method its own."""
    told, silent = set[str](), dict[str, str]()
    for folder in ("dald_model", "solvers"):
        for file in (ROOT / folder).rglob("*.py"):
            for each in ast.walk(ast.parse(file.read_text())):
                for method in each.body if isinstance(each, ast.ClassDef) else ():
                    if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                        if ast.get_docstring(method):
                            told.add(method.name)
                        else:
                            silent[method.name] = f"{file.name}:{method.lineno}"
    assert not {name: at for name, at in silent.items() if name not in told}
