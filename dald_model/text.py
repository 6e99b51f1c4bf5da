"""Text: reports for print and notebook from plain data; the classes that are printed stay out.

A report is a list of parts: a heading, a table (a pandas DataFrame), or lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

from dald_model.lazy_imports import pd

NUMBER = re.compile(r"(?:(?<![\w)\].])-)?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""A number in a text; a minus belongs to it where none can be subtracted."""
FOLDED = 20
"""More clients than these are told by kind, not one by one."""
UNBROKEN = 12
"""Cells of a notebook's table up to so many characters stay on one line, as ``171 -> 21``."""
SHOWN = 6
"""The most of one kind, as clients, constraints or summands, that are shown one by one."""


@dataclass(frozen=True)
class Heading:
    """A line that opens a report or a part of one."""

    text: str


@dataclass(frozen=True)
class Bare:
    """A table without a head."""

    frame: pd.DataFrame


Part: TypeAlias = "Heading | Bare | pd.DataFrame | Sequence[str]"


class Printed:
    """A class with a report: what ``print`` and a notebook show of it."""

    def report(self, *, wide: bool) -> list[Part]:
        """What is shown; ``wide`` says that there is room for long cells, as in a notebook."""
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self.report(wide=False))

    def __repr__(self) -> str:
        return as_text(self.report(wide=False))

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


def parted(parts: Iterable[Iterable[Any]], most: int = 5) -> str:
    """Groups of names for a message: the first few groups in braces, and how many there are.

    >>> parted([["b", "a"], ["c"]])
    "{'a', 'b'}; {'c'}"
    """
    found = list(parts)
    said = [f"{{{listed(sorted(part, key=repr))}}}" for part in found[:most]]
    return "; ".join(said) + (f"; and {len(found) - most} more" if len(found) > most else "")


def outline(text: str) -> str:
    """A text with its numbers left out: what texts of one kind have in common.

    >>> outline("norm1([20x3] @ x0 + -5.0)")
    'norm#([#x#] @ x# + #)'
    """
    return NUMBER.sub("#", text)


def ranged(texts: Iterable[str]) -> str:
    """Texts of one outline as one, with the range of each number.

    >>> ranged(["norm1([20x3] @ x0)", "norm1([35x3] @ x2)", "norm1([4x3] @ x1)"])
    'norm1([4..35x3] @ x0..2)'
    """
    given = list(texts)
    columns = zip(*map(NUMBER.findall, given), strict=True)
    ends = ((min(column, key=float), max(column, key=float)) for column in columns)
    numbers = iter([low if low == high else f"{low}..{high}" for low, high in ends])
    return NUMBER.sub(lambda _: next(numbers), given[0])


def together(texts: Iterable[str], width: int) -> str:
    """Texts on one line of at most so many characters: all, or their range, or the first of them.

    >>> together(["a", "b"], 20), together([f"hospital {i}" for i in range(160)], 20)
    ('a, b', 'hospital 0..159')
    """
    given = list(texts)
    whole = ", ".join(given)
    if len(whole) > width and len(set(map(outline, given))) == 1:
        whole = ranged(given)
    return shortened(whole, width)


def folded(
    frame: pd.DataFrame, width: int, names: str = "client", exact: Collection[str] = ()
) -> pd.DataFrame:
    """A table of clients as a table of kinds of them, at most ``SHOWN`` of these.

    Of one kind are rows whose cells differ in numbers alone, and not in the ``exact`` columns. The
    column of names becomes that of
    all of a kind, and one of how many they are stands beside it.
    """
    cells = frame.drop(columns=names).astype(str)
    kinds: dict[tuple[str, ...], list[int]] = {}
    told = pd.DataFrame({c: cells[c] if c in exact else cells[c].map(outline) for c in cells})
    for at, row in enumerate(told.itertuples(index=False, name=None)):
        kinds.setdefault(row, []).append(at)
    largest = sorted(kinds.values(), key=len, reverse=True)
    shown, rest = largest, []
    if len(largest) > SHOWN:
        shown, rest = largest[: SHOWN - 1], largest[SHOWN - 1 :]
    rows = [
        {
            f"{names}s": together(frame[names].iloc[members].astype(str), width),
            "number": str(len(members)),
            **{c: shortened(ranged(cells[c].iloc[members]), width) for c in cells},
        }
        for members in sorted(shown)
    ]
    if rest:
        more = {f"{names}s": f"{len(rest)} more kinds", "number": str(sum(map(len, rest)))}
        rows.append(more | dict.fromkeys(cells, "..."))
    return pd.DataFrame(rows)


def shortened(text: str, width: int) -> str:
    """A text on one line of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def printable(text: str, width: int) -> str:
    r"""A text from elsewhere as it may be printed: escaped where it would steer a terminal.

    >>> printable("a\x1b[2J", 80)
    'a\\x1b[2J'
    """
    start = text[: 2 * width]
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in start
    )
    return shortened(shown, width)


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
        def cell(text: str) -> str:
            whole = "; white-space: nowrap" if len(text) <= UNBROKEN else ""
            word = f"<b>{text}</b>" if text == "FAILED" else escape(text)
            return f'<{kind} style="text-align: left{whole}">{word}</{kind}>'

        return f"<tr>{''.join(map(cell, map(str, cells)))}</tr>"

    top = f"<thead>{row('th', frame.columns)}</thead>" if head else ""
    rows = "".join(row("td", cells) for cells in frame.to_numpy())
    return f'<table class="dataframe">{top}<tbody>{rows}</tbody></table>'
