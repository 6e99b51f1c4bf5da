"""Tables of the manual say what the tracked results say, with their commit."""

import re

import pytest

from tests.manual.numbers import TABLES, between


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_the_manual_is_that_of_its_file(name: str) -> None:
    page, made = TABLES[name]
    found = between(name).search(page.read_text())
    assert found is not None
    assert found[0] == f"<!-- {name} -->\n{made()}\n<!-- end -->"
    assert re.search(r"[Cc]ommit [0-9a-f]{7,}", found[0])
