"""Every repr and table; the classes themselves hold none, and plots are in charts and drawing.

Tables are pandas DataFrames, shown as text or HTML. Rows that have nothing to say are dropped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import pandas as pd

if TYPE_CHECKING:
    from dald_model.compare import Comparison
    from dald_model.compiler import Compiled
    from dald_model.explain import Explanation
    from dald_model.model import Model
    from dald_model.result import Result
    from dald_model.subproblem import Subproblem
    from dald_model.verify import Verification
    from dald_model.wavefront import Parallelism


def model_frame(model: Model, width: int = 48) -> pd.DataFrame:
    """One row a client: what it minimises, its variables and constraints, cut to a width."""
    users: dict[int, int] = {}
    for client in model.clients.values():
        for v in client.variables:
            users[v.id] = users.get(v.id, 0) + 1
    rows = []
    for name, client in model.clients.items():
        sense = client.objective.NAME
        names = [_variable(v) + ("*" if users[v.id] > 1 else "") for v in client.variables]
        rows.append(
            {
                "client": str(name),
                "objective": shortened(f"{sense} {symbolic(client.objective.expr)}", width),
                "variables": shortened(", ".join(names), width - 8),
                "constraints": len(client.constraints),
            }
        )
    return pd.DataFrame(rows, columns=["client", "objective", "variables", "constraints"])


def model_text(model: Model) -> str:
    """The model as a person asks for it: how many clients, which, and who agrees with whom."""
    lines = [f"Model {model.name!r}: {counted(len(model.clients), 'client')}"]
    if model.clients:
        lines += _indented(model_frame(model))
    return "\n".join(lines + _couplings(model))


def model_html(model: Model) -> str:
    """The same for a notebook."""
    head = _html_head(f"Model {model.name!r}: {counted(len(model.clients), 'client')}")
    table = _html_table(model_frame(model, 120)) if model.clients else ""
    return head + table + _html_lines(_couplings(model))


def _couplings(model: Model, most: int = 12) -> list[str]:
    lines = []
    if model.agreements:
        shown = [f"    {a}" for a in model.agreements[:most]]
        if len(model.agreements) > most:
            shown.append(f"    ... and {len(model.agreements) - most} more")
        lines += ["  consensus", *shown]
    shared = model.shared
    if shared:
        how = "through a server" if model.graph is None else f"over {model.graph}"
        lines.append(f"  * shared {how}: {', '.join(v.name() for v in shared)}")
    return lines


def compiled_frame(compiled: Compiled) -> pd.DataFrame:
    """One row a subproblem: its level in the sweep, its sizes and its neighbours."""
    level = {name: at + 1 for at, names in enumerate(compiled.network.levels) for name in names}
    return pd.DataFrame(
        {
            "client": str(name) + (" (server)" if sub.client.is_server else ""),
            "level": level[name],
            "variables": sub.size,
            "coupled": sub.entries.size,
            "neighbours": shortened(", ".join(map(str, sub.neighbours)), 40),
        }
        for name, sub in compiled.items()
    )


def compiled_text(compiled: Compiled) -> str:
    """The subproblems and the order in which they are solved."""
    return "\n".join([_sizes(compiled), *_indented(compiled_frame(compiled))])


def compiled_html(compiled: Compiled) -> str:
    """The same for a notebook."""
    return _html_head(_sizes(compiled)) + _html_table(compiled_frame(compiled))


def _sizes(compiled: Compiled) -> str:
    return (
        f"Compiled {compiled.model.name!r}: {counted(len(compiled), 'subproblem')}, "
        f"{counted(len(compiled.edges), 'edge')}, {compiled.size} consensus constraints"
    )


def explanation_frame(explanation: Explanation, width: int = 40) -> pd.DataFrame:
    """One row a kind of client: who solves it, as what, and how much smaller it became."""
    return pd.DataFrame(
        {
            "clients": shortened(", ".join(map(str, one.clients)), width),
            "number": len(one.clients),
            "solver": one.solver,
            "as": one.what,
            "variables": _change(one.stated[0], one.solved[0]),
            "rows": _change(one.stated[1], one.solved[1]),
            "if it fails": ", ".join(one.then),
        }
        for one in explanation
    )


def explanation_text(explanation: Explanation) -> str:
    """Who solves whom, and why nobody faster does."""
    table = _indented(explanation_frame(explanation))
    lines = ["Solver layer", *table, *_refusals(explanation), "Coordination"]
    return "\n".join([*lines, *_coordination(explanation)])


def explanation_html(explanation: Explanation) -> str:
    """The same for a notebook."""
    table = _html_table(explanation_frame(explanation, 120))
    layer = _html_head("Solver layer") + table + _html_lines(_refusals(explanation))
    return layer + _html_head("Coordination") + _html_lines(_coordination(explanation))


def order_text(found: Parallelism) -> str:
    """The parallelism of an order in one line."""
    alone = (
        f"{counted(found.levels, 'level')} one after the other, "
        f"{counted(found.level_width, 'client')} at once"
    )
    steps = "1 step" if found.period == 1 else f"{round(float(found.period), 2):g} steps"
    gain = f"{steps} a sweep, {counted(found.width, 'client')} at once"
    if found.period == found.levels:
        gain = "no gain"
    return f"order: {alone}; overlapped sweeps: {gain}"


def _coordination(explanation: Explanation) -> list[str]:
    """How parallel the order is, what is known of it, and which algorithm follows it."""
    said = [
        order_text(explanation.parallelism),
        explanation.sequence.explain(),
        explanation.algorithm.explain() if explanation.algorithm else "",
    ]
    lines = [line for text in said for line in text.splitlines()]
    return [part for line in lines for part in _wrapped(line)]


def _wrapped(line: str) -> list[str]:
    """A line, indented, in lines of at most 100 characters that keep its own indent."""
    indent = "  " + " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line.lstrip(), 100, initial_indent=indent, subsequent_indent=indent + "  ")


def _change(before: int, after: int) -> str:
    return str(after) if before == after else f"{before} -> {after}"


def _refusals(explanation: Explanation) -> list[str]:
    """Why nobody faster does it: one line for each reason and the clients it holds for."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for one in explanation:
        by_reason: dict[str, list[str]] = {}
        for solver, reason in one.refusals.items():
            by_reason.setdefault(reason, []).append(solver)
        for reason, solvers in by_reason.items():
            key = one.solver, ", ".join(solvers), reason
            lines.setdefault(key, []).extend(map(str, one.clients))
    return [
        f"  {shortened(', '.join(names), 30)} by {solver}, not by {others}: {reason}"
        for (solver, others, reason), names in lines.items()
    ]


def subproblem_text(sub: Subproblem) -> str:
    """The augmented Lagrangian of one client."""
    lines = [f"minimize {symbolic(sub.problem.objective.expr)}"]
    lines += [f"  {rule}" for rule in map(symbolic, sub.problem.constraints)]
    return "\n".join([f"Subproblem of {sub.name!r}", *("  " + line for line in lines)])


def result_pairs(result: Result) -> dict[str, str]:
    """What a person asks first of a result; questions without an answer are left out."""
    pairs = {"status": f"{result.status} ({result.status.message})"}
    if result.culprit is not None:
        pairs["culprit"] = repr(result.culprit)
    if result.detail:
        pairs["detail"] = result.detail
    if result.value == result.value:
        pairs["value"] = f"{result.value:.8g}"
    if result.rounds:
        pairs["rounds"] = str(result.rounds)
        if result.answer_round not in (0, result.rounds):
            pairs["answer from"] = f"round {result.answer_round}, the best"
    if result.fallbacks:
        first = result.fallbacks[0]
        pairs["fallbacks"] = (
            f"{len(result.fallbacks)}, first client {first.client!r} in round {first.round}: "
            f"from {first.failed} to {first.next} ({first.message})"
        )
    if result.answer_round:
        shown = result.history.loc[result.answer_round]
        pairs["primal residual"] = f"{shown.primal:.1e}"
        pairs["dual residual"] = f"{shown.dual:.1e}"
    pairs["clients"] = str(len(result.compiled.model.clients))
    pairs["time"] = f"{result.seconds:.2f} s"
    return pairs


def result_text(result: Result) -> str:
    """The result as a short list."""
    pairs = result_pairs(result)
    width = max(map(len, pairs))
    lines = [f"  {key:<{width}}  {value}" for key, value in pairs.items()]
    return "\n".join([f"Result of {result.compiled.model.name!r}", *lines])


def result_html(result: Result) -> str:
    """The same for a notebook."""
    pairs = pd.DataFrame(result_pairs(result).items())
    return _html_head(f"Result of {result.compiled.model.name!r}") + _html_table(pairs, head=False)


def verification_frame(check: Verification) -> pd.DataFrame:
    """One row a comparison."""
    return pd.DataFrame(
        {
            "check": row.check,
            "measured": f"{row.measured:.1e}",
            "allowed": "" if row.allowed is None else f"{row.allowed:.0e}",
            "": ("ok" if row.ok else "FAILED") if row.allowed is not None else "told",
            "where": row.where,
        }
        for row in check.rows
    )


def verification_text(check: Verification) -> str:
    """The comparison with the all-in-one solve, failures named."""
    return "\n".join([*_verdict(check), *_indented(verification_frame(check)), *_notes(check)])


def verification_html(check: Verification) -> str:
    """The same for a notebook."""
    result = check.result
    ours = (
        f"{result.value:.8g}",
        result.status,
        f"{result.seconds:.2f} s, {counted(result.rounds, 'round')}",
    )
    aio = f"{check.aio_value:.8g}", check.aio_status, f"{check.aio_seconds:.2f} s"
    columns = ["solve", "value", "status", "time"]
    solves = pd.DataFrame([("distributed", *ours), ("all-in-one", *aio)], columns=columns)
    head = _html_head(_verdict(check)[0])
    tables = _html_table(solves) + _html_table(verification_frame(check))
    return head + tables.replace(">FAILED<", "><b>FAILED</b><") + _html_lines(_notes(check))


def _verdict(check: Verification) -> list[str]:
    result = check.result
    failed = ", ".join(row.check for row in check.failures)
    return [
        f"Verification of {result.compiled.model.name!r}: "
        + ("passed" if check.ok else f"FAILED ({failed})"),
        f"  distributed  {result.value:.8g}  {result.status}  {result.seconds:.2f} s, "
        f"{result.rounds} rounds",
        f"  all-in-one   {check.aio_value:.8g}  {check.aio_status}  {check.aio_seconds:.2f} s",
    ]


def _notes(check: Verification) -> list[str]:
    return [f"  note: {check.note}"] if check.note else []


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """The table of a comparison as it is printed."""
    frame = comparison.frame
    shown = pd.DataFrame(
        {
            "status": frame.status.astype(str),
            "rounds": frame.rounds,
            "MB sent": [f"{sent / 1e6:.3g}" for sent in frame.sent],
            "objective gap": [f"{gap:.1e}" for gap in frame.gap],
        }
    )
    for tolerance in comparison.tolerances:
        rounds = frame[f"rounds to {tolerance:.0e}"]
        shown[f"to {tolerance:.0e}"] = ["" if r != r else f"{int(r)}" for r in rounds]
    for name in comparison.metrics:
        shown[name] = [f"{value:.5g}" for value in frame[name]]
    shown.insert(0, "algorithm", frame.index)
    return shown


def comparison_text(comparison: Comparison) -> str:
    """Algorithms side by side."""
    return "\n".join([_compared(comparison), *_indented(comparison_frame(comparison))])


def comparison_html(comparison: Comparison) -> str:
    """The same for a notebook."""
    return _html_head(_compared(comparison)) + _html_table(comparison_frame(comparison))


def _compared(comparison: Comparison) -> str:
    return f"Comparison on {comparison.model.name!r}, all-in-one optimum {comparison.aio:.8g}"


def symbolic(part: Any) -> str:
    """A cvxpy expression or constraint with its data named by their shapes: ``[50x11] @ x``."""
    data = [c for c in part.constants() if c.size > 1]
    names = {id(c): cp.Parameter(c.shape, name=f"[{'x'.join(map(str, c.shape))}]") for c in data}
    try:
        named = part.tree_copy(names)
    except (ValueError, TypeError, NotImplementedError):
        named = part  # an atom that wants its data as numbers, such as quad_form
    return " ".join(str(named).split())


def _variable(variable: Any) -> str:
    shape = "x".join(map(str, variable.shape))
    return f"{variable.name()}[{shape}]" if shape else variable.name()


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def shortened(text: str, width: int) -> str:
    """A text of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."


def _html_head(text: str) -> str:
    return f"<div><b>{escape(text)}</b></div>"


def _html_lines(lines: Iterable[str]) -> str:
    return "".join(
        f'<div style="margin-left: {len(line) - len(line.lstrip())}ch">{escape(line.strip())}</div>'
        for line in lines
    )


def _html_table(frame: pd.DataFrame, head: bool = True) -> str:
    """A frame as HTML: text to the left as in print, nothing cut, whatever pandas' options."""

    def row(kind: str, cells: Iterable[Any]) -> str:
        left = f'{kind} style="text-align: left"'
        return f"<tr>{''.join(f'<{left}>{escape(str(cell))}</{kind}>' for cell in cells)}</tr>"

    top = f"<thead>{row('th', frame.columns)}</thead>" if head else ""
    rows = "".join(row("td", cells) for cells in frame.to_numpy())
    return f'<table class="dataframe">{top}<tbody>{rows}</tbody></table>'


def _indented(frame: pd.DataFrame) -> list[str]:
    # pandas aligns text to the right; names read better from the left.
    rows = [list(map(str, frame.columns)), *frame.astype(str).to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)) for row in rows]
    return ["  " + line.rstrip() for line in lines]
