"""Text: reports for print and notebook from plain data; the classes that are printed stay out.

A report is a list of parts: a heading, a table (a pandas DataFrame), or lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Heading:
    """A line that opens a report or a part of one."""

    text: str


@dataclass(frozen=True)
class Bare:
    """A table without a head."""

    frame: pd.DataFrame


Part = Heading | Bare | pd.DataFrame | Sequence[str]


class Printed:
    """A class with a report: what ``print`` and a notebook show of it."""

    def report(self, *, wide: bool) -> list[Part]:
        """What is shown; ``wide`` says that there is room for long cells, as in a notebook."""
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self.report(wide=False))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return as_html(self.report(wide=True))


def as_text(parts: Iterable[Part]) -> str:
    """A report for print."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Heading):
            lines.append(part.text)
        elif isinstance(part, pd.DataFrame):
            lines += _aligned([list(map(str, part.columns)), *_cells(part)])
        elif isinstance(part, Bare):
            lines += _aligned(_cells(part.frame))
        else:
            lines += part
    return "\n".join(lines)


def as_html(parts: Iterable[Part]) -> str:
    """The same for a notebook."""
    found = []
    for part in parts:
        if isinstance(part, Heading):
            found.append(f"<div><b>{escape(part.text)}</b></div>")
        elif isinstance(part, pd.DataFrame):
            found.append(_html_table(part))
        elif isinstance(part, Bare):
            found.append(_html_table(part.frame, head=False))
        else:
            found += map(_html_line, part)
    return "".join(found)


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def listed(names: Iterable[Any], most: int = 5) -> str:
    """Names for a message: the first few in quotes, and how many there are.

    >>> listed(["a", "b"])
    "'a', 'b'"
    >>> listed(range(160))
    '0, 1, 2, 3, 4 and 155 more, 160 in all'
    """
    found = list(names)
    more = f" and {len(found) - most} more, {len(found)} in all" if len(found) > most else ""
    return ", ".join(map(repr, found[:most])) + more


def shortened(text: str, width: int) -> str:
    """A text on one line of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return frame.astype(str).to_numpy().tolist()


def _aligned(rows: list[list[str]]) -> list[str]:
    """Columns of a width; pandas aligns text to the right, but names read better from the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    return ["  " + line.rstrip() for line in lines]


def _html_line(line: str) -> str:
    indent = len(line) - len(line.lstrip())
    return f'<div style="margin-left: {indent}ch">{escape(line.strip())}</div>'


def _html_table(frame: pd.DataFrame, head: bool = True) -> str:
    """A frame as HTML: text to the left as in print, nothing cut, whatever pandas' options."""

    def row(kind: str, cells: Iterable[Any]) -> str:
        left = f'{kind} style="text-align: left"'
        words = [escape(str(cell)) for cell in cells]
        shown = [f"<b>{word}</b>" if word == "FAILED" else word for word in words]
        return f"<tr>{''.join(f'<{left}>{word}</{kind}>' for word in shown)}</tr>"

    top = f"<thead>{row('th', frame.columns)}</thead>" if head else ""
    rows = "".join(row("td", cells) for cells in frame.to_numpy())
    return f'<table class="dataframe">{top}<tbody>{rows}</tbody></table>'
