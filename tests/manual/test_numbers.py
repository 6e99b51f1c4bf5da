"""Tables and figures of the manual say what the tracked results say, with their commit."""

import json
import re
from pathlib import Path

import pytest

from tests.manual.numbers import FIGURE, TABLES, between, with_figures
from tests.paths import MANUAL, ROOT

PAGES = [page for page in sorted(MANUAL.glob("*.md")) if page.name != "changelog.md"]
OUTSIDE = re.compile(
    r"<!--.*?-->.*?<!-- end -->|```.*?```|`[^`\n]*`|^\|.*?$", re.DOTALL | re.MULTILINE
)
MEASURED = re.compile(r"\d (?:CPU )?(?:times|seconds|s|ms|MB|kB|GB)\b|takes? \d+ rounds")


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_manual_is_that_of_its_file(name: str) -> None:
    page, made = TABLES[name]
    found = between(name).search(page.read_text())
    assert found is not None
    assert found[0] == f"<!-- {name} -->\n{made()}\n<!-- end -->"
    assert re.search(r"[Cc]ommit [0-9a-f]{7,}", found[0])


def test_a_figure_in_a_sentence_is_that_of_its_file() -> None:
    named = set()
    for page in PAGES:
        text = page.read_text()
        assert with_figures(text) == text, page.name
        assert "\n<!-- figures.json" not in text, (
            "a line that begins with a comment ends a paragraph"
        )
        named |= {found[2] for found in FIGURE.finditer(text)}
    recorded = json.loads((ROOT / "tests" / "benchmarks" / "figures.json").read_text())
    assert named <= set(recorded["figures"])
    assert len(named) > 8
    assert re.fullmatch("[0-9a-f]{7,}", recorded["commit"])


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_no_sentence_quotes_a_time_a_size_or_a_ratio_without_its_file(page: Path) -> None:
    assert MEASURED.findall(OUTSIDE.sub("", page.read_text())) == []
