"""The manual: its Python runs and prints what it says, and what it names exists."""

import re
import runpy
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from pkgutil import resolve_name

import pytest

import dald_model as dm
from dald_model import engines, errors, estimators, solvers
from tests.paths import GALLERY, MANUAL, ROOT

PAGES = sorted(MANUAL.glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text())]
OWN = sorted((MANUAL / "extend").glob("*.py"))
SMALL = re.compile(r"\d(?:\.\d)?e-\d+|[\d.]+(?= s\b)")
"""What rounding and clocks decide: residuals, gaps, seconds."""
FULL = re.compile(r":\w+:`~?(dald_model\.[\w.]+)`")
LINK = re.compile(r"(?<!`)\]\(([^)#:\s]+)(?:#[^)]*)?\)")

each_page = pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])


def heading(page: str) -> list[str]:
    return re.findall(r"^## `(\w+)`$", (MANUAL / page).read_text(), flags=re.MULTILINE)


def quoted(page: str, name: str) -> str:
    """What a section cites of the code, below its heading."""
    section = (MANUAL / page).read_text().split(f"## `{name}`\n")[1].split("\n## ")[0]
    return " ".join(re.findall(r"^> (.*)$", section, flags=re.MULTILINE))


@pytest.mark.parametrize("page", WITH_CODE, ids=[page.stem for page in WITH_CODE])
def test_the_python_of_a_page_runs_in_order_and_prints_what_stands_beside_it(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a comment after ``print``, or in the text below; dots stand for anything.

    Of figures around zero and of times it is only said that some stand there.
    """
    names = {"__name__": "manual"}
    for code, below in BLOCK.findall(page.read_text()):
        exec(compile(code, page.name, "exec"), names)
        beside = "".join(f"{said}\n" for said in re.findall(r"print\(.*\)  # (.*)", code))
        printed = capsys.readouterr().out
        wanted, found = SMALL.sub("0", beside + below), SMALL.sub("0", printed)
        assert OutputChecker().check_output(wanted, found, ELLIPSIS | NORMALIZE_WHITESPACE), printed


@pytest.mark.parametrize("file", OWN, ids=[file.stem for file in OWN])
def test_a_method_in_one_file_gives_what_its_last_line_says(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(file), run_name="__main__")
    (said,) = re.findall(r"print\(.*\)  # (.*)", file.read_text())
    assert capsys.readouterr().out == f"{said}\n"
    assert f"extend/{file.name}" in (MANUAL / "extend.md").read_text()


def test_every_status_has_its_section_in_order_with_its_message() -> None:
    assert heading("statuses.md") == list(dm.Status)
    assert {s: quoted("statuses.md", s) for s in dm.Status} == {s: s.message for s in dm.Status}


def test_every_error_has_its_section_with_the_first_line_of_its_help() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type) and one is not object]
    named = {one.__name__: one for one in classes if one.__module__ == errors.__name__}
    assert sorted(heading("errors.md")) == sorted(named)
    for name, one in named.items():
        assert quoted("errors.md", name) == (one.__doc__ or "").split("\n")[0]


@pytest.mark.parametrize(
    ("names", "package"),
    [
        (dm.__all__, "dald_model"),
        (solvers.__all__, "dald_model.solvers"),
        (engines.__all__, "dald_model.engines"),
        (estimators.__all__, "dald_model.estimators"),
    ],
    ids=["public", "solvers", "engines", "estimators"],
)
def test_every_public_name_is_in_the_reference_once(names: list[str], package: str) -> None:
    pages = "\n".join(page.read_text() for page in (MANUAL / "api").glob("*.md"))
    listed = re.findall(rf"^\.\. auto\w+:: {package}\.(\w+)$", pages, flags=re.MULTILINE)
    rooms = {"solvers", "engines", "partition", "estimators", "flower"}
    assert sorted(set(listed) - rooms) == sorted(set(names) - rooms - {"NAMED"})
    assert len(listed) == len(set(listed))


@each_page
def test_what_a_page_links_to_and_says_lies_in_the_repository_is_there(page: Path) -> None:
    text = page.read_text()
    links = [link for link in LINK.findall(text) if not link.startswith("made/")]
    files = re.findall(r"`((?:dald_model|models|notebooks|tests|solvers)/[\w/.]+\.\w+)`", text)
    absent = {link for link in links if not (page.parent / link).exists()}
    assert not absent | {file for file in files if not (ROOT / file).exists()}


def test_the_readme_links_to_what_is_there_and_is_three_screens() -> None:
    text = (ROOT / "README.md").read_text()
    links = LINK.findall(text)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert len(text.splitlines()) <= 150
    assert {"make demo", "make test"} <= set(re.findall(r"^(make \w+)", text, flags=re.MULTILINE))


def test_the_notebooks_and_models_that_are_named_exist() -> None:
    for page in [*PAGES, ROOT / "README.md"]:
        for name in re.findall(r"\b0\d_[a-z_]+\b", page.read_text()):
            assert (ROOT / "notebooks" / f"{name}.ipynb").exists(), (page.name, name)
    sentences = (MANUAL / "choose.md").read_text().split("## From a sentence")[1]
    models = {file.stem for file in GALLERY.glob("*.py")}
    named = re.findall(r"\((?:gallery: )?((?:`\w+`(?:, )?)+)\)", sentences)
    assert len(named) > 8
    assert {name for group in named for name in re.findall(r"\w+", group)} <= models


def test_what_a_docstring_refers_to_by_its_full_name_exists() -> None:
    rooms = (ROOT / "dald_model", ROOT / "solvers", ROOT / "models")
    sources = [file for room in rooms for file in room.rglob("*.py")]
    named = {name for file in sources for name in FULL.findall(file.read_text())}
    assert len(named) > 50
    for name in sorted(named):
        assert resolve_name(name), name
