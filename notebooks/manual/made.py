"""Pages and pictures that come from the package itself: the gallery, its drawings, the notebooks.

They are written to the folder ``made`` beside this file, which git ignores, and only anew where
what they come from is newer.
"""

import ast
import logging
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

HERE = Path(__file__).parent
MADE = HERE / "made"
NOTEBOOKS = HERE.parent
MODELS = NOTEBOOKS.parent / "models"

PAGE = """{title}

```{{eval-rst}}
{rest}
```

{pictures}

## The file

`models/{name}.py` runs as a script, and by `dald solve models/{name}.py`; its optimum is tested
against an independent method.

```{{literalinclude}} ../../../../models/{name}.py
:language: python
:lines: {after}-
```
"""
PICTURE = """:::{{figure}} {name}.svg
:alt: Who agrees with whom in {name}

`model().draw()`: who agrees with whom.
:::

:::{{figure}} {name}_answer.svg
:alt: The answer of {name}, and the residuals of each round

`model().solve()`: the values of the variables, and the residuals of each round.
:::
"""
CARD = """:::{{grid-item-card}} {name}
:link: {name}
:link-type: doc
:img-top: {name}.svg

{first}
:::
"""


INK = "#808080"
"""A grey that can be read on a white and on a dark page, as grounds are transparent."""
STYLE = {
    "savefig.transparent": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "legend.framealpha": 0.0,
    **dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.titlecolor",
            "axes.edgecolor",
            "xtick.color",
            "ytick.color",
        ),
        INK,
    ),
}
SPOKEN = {"svm": "SVM", "kernel_svm": "Kernel SVM", "minmax_fairness": "Min-max fairness"}
"""Names of models that are not those of their files."""


def make(app: Any = None) -> None:
    """All of it."""
    logging.getLogger("dald_model").setLevel(logging.WARNING)  # sphinx shows what others log
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    copy_notebooks()
    with plt.rc_context(STYLE):
        gallery()
        pictures()


def is_older(made: Path, *sources: Path) -> bool:
    """Whether a file is missing or older than one of its sources."""
    return not made.is_file() or made.stat().st_mtime < max(s.stat().st_mtime for s in sources)


def copy_notebooks() -> None:
    """The executed notebooks, below this folder, where sphinx reads them."""
    folder = MADE / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        if is_older(folder / notebook.name, notebook):
            shutil.copy2(notebook, folder)


def models() -> list[Path]:
    """The files of the gallery."""
    return sorted(file for file in MODELS.glob("*.py") if file.stem != "__init__")


def gallery() -> None:
    """A page for each model, from its docstring, with a drawing, and an overview of cards."""
    folder = MADE / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for file in models():
        docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
        first, _, rest = docstring.partition("\n")
        if is_older(folder / f"{file.stem}.md", file, Path(__file__)):
            draw(file.stem, folder / f"{file.stem}.svg")
            spoken = SPOKEN.get(file.stem) or file.stem.replace("_", " ").capitalize()
            title = f"# {spoken}\n\n{first}"
            after = docstring.count("\n") + 3
            page = PAGE.format(
                title=title,
                rest=rest.strip(),
                name=file.stem,
                after=after,
                pictures=PICTURE.format(name=file.stem),
            )
            (folder / f"{file.stem}.md").write_text(page)
        cards.append(CARD.format(name=file.stem, first=first))
    grid = "::::{grid} 2 3 3 3\n:gutter: 3\n\n" + "\n".join(cards) + "\n::::\n"
    listed = "\n".join(file.stem for file in models())
    toctree = f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    (folder / "index.md").write_text(f"# All models, with pictures\n\n{grid}\n{toctree}")


def draw(name: str, path: Path) -> None:
    """The picture that the model of a file of the gallery draws of itself, and its answer's."""
    model = import_module(f"dald_model.models.{name}").model()
    keep(model.draw(), path)
    keep(answer(model), path.with_name(f"{name}_answer.svg"))


def answer(model: Any) -> Figure:
    """The values of the variables as bars, a colour each, beside the residuals of the rounds."""
    result = model.solve()
    figure, (values, rounds) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    begin, ticks = 0, {}
    for variable in model.variables:
        entries = np.ravel(variable.value)
        values.bar(begin + np.arange(entries.size), entries, width=0.8)
        ticks[begin + (entries.size - 1) / 2] = variable.name()
        begin += entries.size + 1
    values.axhline(0, color=INK, lw=0.8)
    values.set_xticks([*ticks], ticks.values(), rotation=30, ha="right", fontsize=8)
    values.set_title(f"{model.name}: {result.status}, {result.value:.5g}", parse_math=False)
    history = result.history
    for column, style in (("primal_scaled", "-"), ("dual_scaled", "--")):
        residuals = history[column][history[column] > 0]
        rounds.semilogy(residuals.index, residuals, style, label=column.partition("_")[0])
    rounds.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    rounds.set(xlabel="round", title="Residuals")
    rounds.legend()
    return figure


def keep(figure: Figure, path: Path) -> None:
    """A figure as a file, without the time it was made at."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def pictures() -> None:
    """What the page of concepts shows: the order, the run and the checks of four hospitals."""
    folder, source = MADE / "pictures", MODELS / "hospitals.py"
    if not is_older(folder / "checks.svg", source, Path(__file__)):
        return
    folder.mkdir(parents=True, exist_ok=True)
    model = import_module("dald_model.models.hospitals").model()
    result = model.solve()
    keep(model.compile().draw(), folder / "order.svg")
    keep(result.plot(), folder / "run.svg")
    keep(result.verify().plot(), folder / "checks.svg")
