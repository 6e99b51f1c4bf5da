"""The decomposed programme and a client's subproblem in LaTeX, with the user's names."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile

import cvxpy as cp

from dald_model.compile.decomposition import Decomposition
from dald_model.declare.client import Client
from dald_model.declare.consensus import ConsensusEquality
from dald_model.declare.consensus_form import owners_of
from dald_model.declare.formula import Formula, escaped, labelled, symbol
from dald_model.declare.wording import symbolic
from dald_model.text import SHOWN, outline, together
from dald_model.values import flat

UNNAMED = "xyzuvst"
"""Names of variables that were given none, in a formula of many clients."""


class Latex(str):
    """LaTeX that a notebook shows as formulas, and ``print`` as text for a paper."""

    def _repr_latex_(self) -> str:
        return "\n\n".join(f"$$\n{block}\n$$" for block in self.split("\n\n"))


def programme(compiled: Decomposition) -> Latex:
    """The decomposed programme, and below it the subproblem of one client of each kind."""
    whole = _Programme(compiled)
    first = [members[0].name for members in whole.kinds[:2]]
    return Latex("\n\n".join([whole.text(), *(subproblem(compiled, name) for name in first)]))


def subproblem(compiled: Decomposition, name: Hashable) -> Latex:
    r"""What a client minimises in a round, given multipliers, penalties and its neighbours' sides.

    Raises
    ------
    ResultError
        If it is no client.
    """
    sub = compiled[name]
    called = {v.id: symbol(v.name().partition("@")[0]) for v in sub.variables}
    formula = Formula("", called)
    goal = "" if sub.client.is_server else f"{formula.of(sub.client.cost)} + "
    over = ", ".join(list(called.values())[:SHOWN])
    lines = [
        rf"\min_{{{over}}} \quad & {goal}\textstyle\sum_j \mu_j^\top \mathcal{{C}}_j "
        r"+ \lVert \rho_j \circ \mathcal{C}_j \rVert_2^2 "
        rf"&& \text{{{escaped(str(name))}}}"
    ]
    rules = [formula.of(rule) for rule in sub.client.constraints]
    for other in list(sub.neighbours)[:3]:
        edge = compiled.graph.edges[name, other]["edge"]
        own = ", ".join(map(formula.of, edge.given(name)))
        own = rf"\left( {own} \right)" if len(edge.given(name)) > 1 else own
        there = rf"z_{{{labelled(other)}}}"
        ends = (own, there) if edge.sign(name) > 0 else (there, _bracketed(own))
        rules.append(rf"\mathcal{{C}}_{{{labelled(other)}}} = {ends[0]} - {ends[1]}")
    more = len(sub.neighbours) - 3
    if more > 0:
        rules.append(rf"\dots \quad \text{{and so on for {more} neighbours more}}")
    return Latex(_aligned(lines, [(rule, "") for rule in rules]))


class _Programme:
    """The programme of a model: clients one by one, or the kinds of many."""

    def __init__(self, compiled: Decomposition) -> None:
        self._compiled, self._model = compiled, compiled.model
        kept = compiled.form.common.clients
        clients = [kept.get(name, client) for name, client in compiled.arrays.clients.items()]
        users = owners_of(clients)
        held = {v.id: v for client in clients for v in client.variables}
        self._common = [v for key, v in held.items() if len(users[key]) > 1]
        self._shared = {v.id for v in self._common}
        self.kinds = [[one] for one in clients] if len(clients) <= SHOWN else self._sorted(clients)
        self._called: dict[int, str] = {}
        self._stems: dict[int, str] = {}
        self._objectives: list[tuple[str, str]] = []
        self._rules: list[tuple[str, str]] = []

    def text(self) -> str:
        """The whole, in lines."""
        for members in self.kinds:
            self._enter(members)
        for coupling in self._model.couplings.values():
            formula, label = Formula(), escaped(str(coupling.name))
            if coupling.has_objective:
                self._objectives.append((formula.of(self._goal(coupling)), label))
            self._rules += [(formula.of(rule), label) for rule in coupling.constraints]
        if (cost := self._compiled.form.common.cost) is not None:
            goal = -cost if self._model.maximises else cost
            self._objectives.append((Formula().of(goal), "server"))
        self._agree()
        self._share()
        self._rules += [(Formula().of(rule), "server") for rule in self._compiled.form.common.rules]
        named = [self._called.get(v.id) or symbol(v.name()) for v in self._model.variables]
        over = list(dict.fromkeys(named))
        over = ", ".join(over if len(over) <= SHOWN else [*over[:2], r"\dots", over[-1]])
        head = "\\max" if self._model.maximises else "\\min"
        (first, label), *others = self._objectives or [("0", "")]
        lines = [rf"{head}_{{{over}}} \quad & {first}{_told(label)}"]
        lines += [
            f"& {'' if text.startswith('-') else '{} + '}{text}{_told(label)}"
            for text, label in others
        ]
        return _aligned(lines, self._rules)

    def _goal(self, client: Client) -> cp.Expression:
        return client.objective.expr if self._model.maximises else client.cost

    def _sorted(self, clients: Iterable[Client]) -> list[list[Client]]:
        """Clients of one outline together, whatever their own variables are called."""
        kinds: dict[tuple[str, ...], list[Client]] = {}
        for client in clients:
            own = [v for v in client.variables if v.id not in self._shared]
            names = {v.id: f"own{at}" for at, v in enumerate(own)}
            parts = [client.objective.expr, *client.constraints]
            key = (client.objective.NAME, *(outline(symbolic(part, names)) for part in parts))
            kinds.setdefault(key, []).append(client)
        return list(kinds.values())

    def _enter(self, members: Sequence[Client]) -> None:
        """The objective and the constraints of a client, or of a kind with an index."""
        client, many = members[0], len(members) > 1
        index = "i" if many else labelled(client.name)
        names = self._names(members, index)
        free = _differing(members) if many else frozenset()
        formula = Formula(index, names, free)
        goal, label = formula.of(self._goal(client)), escaped(_label(members))
        rules = [formula.of(rule) for rule in client.constraints]
        each = rf" \quad i = 1, \dots, {len(members)}" if many else ""
        if many:
            goal = rf"\sum_{{i=1}}^{{{len(members)}}} {_bracketed(goal)}"
        if client.objective.variables():
            self._objectives.append((goal, label))
        self._rules += [(rule + each, label) for rule in rules]

    def _names(self, members: Sequence[Client], index: str) -> dict[int, str]:
        """What the first of some clients' variables are called, and with them the others'."""
        found, columns = {}, zip(*(one.variables for one in members), strict=True)
        for at, column in enumerate(columns):
            first, many = column[0], len(members) > 1
            if first.id in self._shared:
                found[first.id] = _indexed(symbol(first.name()), index)
                self._called |= {v.id: _indexed(symbol(v.name()), "i") for v in column if many}
            elif many:
                letters = zip(*(v.name() for v in column), strict=False)
                same = takewhile(lambda one: len(set(one)) == 1, letters)
                stem = "".join(one[0] for one in same).rstrip("_0123456789[]:, ")
                is_none = not stem or re.fullmatch(r"var\d+", first.name())
                stem = symbol(UNNAMED[at % len(UNNAMED)] if is_none else stem)
                found[first.id] = _indexed(stem, index)
                self._called |= {v.id: found[first.id] for v in column}
                self._stems |= {v.id: stem for v in column}
        return found

    def _agree(self) -> None:
        """The user's consensus equalities; many of one outline as one of them."""
        given = self._model.agreements
        if len(given) <= SHOWN:
            self._rules += [(self._equality(one), "") for one in given]
            return
        kinds: dict[str, list[ConsensusEquality]] = {}
        for one in given:
            kinds.setdefault(outline(str(one)), []).append(one)
        for same in list(kinds.values())[:SHOWN]:
            more = rf" \quad \text{{and {len(same) - 1} more of this kind}}" if same[1:] else ""
            self._rules.append((self._equality(same[0]) + more, "consensus"))

    def _equality(self, one: ConsensusEquality) -> str:
        """An equality; between two of many with the indices i and j."""
        sides = ((one.left, "i"), (one.right, "j"))
        formula = Formula(
            "ij",
            {
                v.id: _indexed(self._stems[v.id], index)
                for side, index in sides
                for v in side.variables()
                if v.id in self._stems
            },
        )
        return f"{formula.of(one.left)} = {formula.of(one.right)}"

    def _share(self) -> None:
        """That copies of a shared variable agree: with the server's, or along edges."""
        for v in self._common[:SHOWN]:
            homes, name = self._compiled.form.homes[v.id], symbol(v.name())
            users = [one for one in homes if one not in self._compiled.servers]
            if len(users) < len(homes):
                copies = [_indexed(name, labelled(one)) for one in users]
                if len(users) > SHOWN:
                    text = rf"{_indexed(name, 'i')} = {name} \quad i = 1, \dots, {len(users)}"
                else:
                    text = " = ".join([*copies, name])
                self._rules.append((text, "server"))
                continue
            edges = list(self._compiled.graph.subgraph(users).edges)
            pairs = [tuple(_indexed(name, labelled(end)) for end in ends) for ends in edges]
            if len(edges) > SHOWN:
                pairs = [(_indexed(name, "i"), _indexed(name, "j"))]
            said = rf" \quad \text{{for {len(edges)} edges }} (i, j)" if len(edges) > SHOWN else ""
            self._rules += [(f"{one} = {two}{said}", "") for one, two in pairs]


def _label(members: Sequence[Client]) -> str:
    """What some clients are called together."""
    names = [str(one.name) for one in members]
    return together(names, 40 if len(names) <= SHOWN else 24)


def _differing(members: Sequence[Client]) -> frozenset[int]:
    """The scalars of the first of a kind that others have other values of."""

    def scalars(client: Client) -> list[cp.Constant]:
        parts = [client.objective, *client.constraints]
        return [c for part in parts for c in part.constants() if c.size == 1]

    columns = list(zip(*map(scalars, members), strict=False))
    return frozenset(
        id(column[0]) for column in columns if len({flat(c.value)[0] for c in column}) > 1
    )


def _indexed(name: str, index: str) -> str:
    """A symbol with an index more."""
    return (
        f"{name[:-1]},{index}}}" if name.endswith("}") and "_{" in name else f"{name}_{{{index}}}"
    )


def _bracketed(text: str) -> str:
    """A sum in brackets; whatever has a plus or minus outside of others counts as one."""
    depth = 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(letter, 0)
        if depth == 0 and letter in "+-" and at:
            return rf"\left( {text} \right)"
    return text


def _told(label: str) -> str:
    return rf" && \text{{{label}}}" if label else ""


def _aligned(lines: Sequence[str], rules: Sequence[tuple[str, str]]) -> str:
    """Objective and constraints, each on a line of its own."""
    told = list(lines)
    for at, (rule, label) in enumerate(rules):
        head = r"\text{s.t.} \quad & " if at == 0 else "& "
        told.append(f"{head}{rule}{_told(label)}")
    body = " \\\\\n".join(told)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"
