"""Every notebook runs from its text source, and the committed .ipynb is what that gives.

`make notebooks` runs this file to write the .ipynb.
"""

import os
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("*.py"))
each_notebook = pytest.mark.parametrize("source", SOURCES, ids=[source.stem for source in SOURCES])

_FOLDER = Path(os.environ.get("DALD_DATA") or NOTEBOOKS.parents[1] / "shared" / "data")
_WARNINGS_ARE_ERRORS = (
    "import warnings; warnings.simplefilter('error'); "
    "warnings.filterwarnings('ignore', module='ipykernel')"
)


def run(source: Path) -> NotebookNode:
    """The notebook with its outputs, and nothing in it that changes from run to run by itself."""
    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
    NotebookClient(
        notebook,
        timeout=300,
        record_timing=False,
        coalesce_streams=True,  # how a text is cut into messages depends on the clock
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        extra_arguments=[
            f"--IPKernelApp.exec_lines={_WARNINGS_ARE_ERRORS}",
            "--IPKernelApp.log_level=ERROR",  # it warns of its own ports
        ],
    ).execute(env=os.environ | ({"DALD_DATA": str(_FOLDER)} if _FOLDER.is_dir() else {}))
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def committed(source: Path) -> NotebookNode:
    return nbformat.read(source.with_suffix(".ipynb"), as_version=4)


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: NotebookNode) -> list[tuple[str, ...]]:
    """What the cell shows: a table, a picture, printed text."""
    return [(output.output_type, *sorted(output.get("data", ()))) for output in cell.outputs]


def test_there_are_notebooks() -> None:
    assert SOURCES


@each_notebook
def test_source_and_notebook_have_the_same_cells(source: Path) -> None:
    stated = [(cell.cell_type, cell.source) for cell in jupytext.read(source).cells]
    shown = [(cell.cell_type, cell.source) for cell in committed(source).cells]
    assert shown == stated, "run `make notebooks`"


@each_notebook
def test_notebook_was_run_once_from_top_to_bottom_without_complaint(source: Path) -> None:
    cells = code(committed(source))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    texts = [str({**o, "data": {**o.get("data", {}), "image/png": None}}) for o in outputs]
    for text in [*texts, source.read_text()]:
        assert not re.search(r"/(home|root|tmp|work|Users)/|\b[A-Z]:\\", text), "a machine's path"


@pytest.mark.slow
@each_notebook
def test_source_runs_and_shows_what_the_notebook_shows(source: Path) -> None:
    try:
        fresh = run(source)
    except CellExecutionError as error:
        if error.ename == "DatasetError" and not _FOLDER.is_dir():
            pytest.skip(error.evalue)
        raise
    assert list(map(kinds, code(fresh))) == list(map(kinds, code(committed(source))))


if __name__ == "__main__":
    for text_source in SOURCES:
        nbformat.write(run(text_source), text_source.with_suffix(".ipynb"))
