r"""What the clients pay for agreeing, at least.

Whatever points :math:`y_i \in X_i` the clients go to by themselves,

.. math:: S = \sum_i \Big[ f_i(x) - f_i(y_i) \Big] \le \sum_i \Big[ f_i(x) - \min_{X_i} f_i \Big],

so nothing has to be minimised for a yardstick that is never too long. A client goes

* with kinks or bounds, along its price p, as one that agrees for it has the slope -p; with each
  entry over its curvature, or over the square of its steepness;
* if it is smooth, so down its gradient, and along its Newton step;
* also with the entries held that are zero, as kinks may hold them;
* with other constraints, or where no line leads down, to its minimum within a box: a few of the
  ways of others wide, and where that is too narrow as far as x is from zero.

One that falls for ever counts as far as lengths go, which others tell. Along a line the best of the
lengths that are tried has 99 % of what a quadratic falls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import scipy.sparse as sp

from dald_model.answer.alike import Alike
from dald_model.answer.bound import Parts
from dald_model.answer.cone_clients import ConeClient, fallen
from dald_model.answer.lengths import Slopes, single_bounds
from dald_model.answer.smooth_clients import SmoothClients, is_smooth_alone
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form, Rows, Term
from dald_model.compile.objectives import objectives
from dald_model.sizes import ROOM, SUMMED
from dald_model.values import flat

FAR = 4.0 ** np.arange(15, -13, -1)
"""How far along a way is tried, in sizes of variables."""
BEYOND = 4.0 ** np.arange(45, 14, -1)
"""The same of what falls beyond the last."""
BETWEEN = 2.0 ** np.linspace(-1.25, 1.25, 13)
"""Where it is tried between these."""
ENDLESS = 1e-3
"""Share of a fall in a box that another move as long has to bring for a client to fall for ever."""
WIDER_BOX = 4.0
"""How many times as far as along a line the box of a client with rows reaches."""


class Paid(NamedTuple):
    """What clients could gain.

    Attributes
    ----------
    falls : dict
        Client -> what it could gain by itself, at least.
    ways, farthest : ndarray
        How far all entries go for that, and where curvature that is rounding is the least there is.
    endless : dict
        Client of which nothing is known but that it falls for ever -> the way.
    """

    falls: dict[Hashable, float]
    ways: np.ndarray
    farthest: np.ndarray
    endless: dict[Hashable, np.ndarray]


class Gain(NamedTuple):
    """What one client could gain, or with a first axis some clients, with arrays (m,).

    Attributes
    ----------
    fall : float
        At least.
    way, farthest : ndarray
        How far it goes for that, and where curvature that is rounding is the least there is.
    endless : ndarray
        The way of one of which nothing is known but that it falls for ever; else zero.
    """

    fall: Any
    way: np.ndarray
    farthest: np.ndarray
    endless: np.ndarray


def least_paid(
    compiled: Decomposition,
    parts: Parts,
    at: np.ndarray,
    costs: Mapping[Hashable, float],
    slopes: Slopes,
) -> Paid:
    """What each client could gain by itself, at least.

    ``at`` is the point, all variables one after the other, and ``costs`` the objectives there.
    """
    falls: dict[Hashable, float] = {}
    if compiled.as_declared:
        slopes = slopes._replace(prices=_with_shares(compiled, slopes.prices))
        parts, costs = _of_declared(compiled, at)
    ways, farthest, endless = np.zeros((3, at.size))
    with np.errstate(all="ignore"):
        for group in parts.groups:
            here = group.columns
            found = _of_smooth(group, at[here], slopes.of(here))
            falls |= dict(zip(group.names, found.fall.tolist(), strict=True))
            ways[here], farthest[here], endless[here] = found[1:]
        for name, found in _of_cones(compiled, parts, at, costs, slopes, ways).items():
            part = compiled.columns[name]
            falls[name], ways[part], farthest[part], endless[part] = found
    ways, farthest = (np.where(np.isfinite(one), one, 0.0) for one in (ways, farthest))
    falling = {name: endless[compiled.columns[name]] for name in falls}
    falling = {name: way for name, way in falling.items() if way.any()}
    return Paid(falls, ways, np.maximum(ways, farthest), falling)


def _with_shares(compiled: Decomposition, prices: np.ndarray) -> np.ndarray:
    """Prices, with equal shares of the server's for the clients whose objectives it holds."""
    found, columns = prices.copy(), compiled.columns
    held = compiled[compiled.holder].spread(prices[columns[compiled.holder]])
    shares = {compiled.served[key]: flat(x) / len(compiled.as_declared) for key, x in held.items()}
    for name, sub in compiled.as_declared.items():
        found[columns[name]] += np.concatenate(
            [shares[compiled.origins[v.id]] for v in sub.variables]
        )
    return found


def _of_declared(compiled: Decomposition, at: np.ndarray) -> tuple[Parts, dict[Hashable, float]]:
    """The clients as declared of whose objectives a server holds a part, and their costs."""
    groups: dict[object, tuple[list[Hashable], list[Form]]] = {}
    cones, points = dict[Hashable, ConeClient](), {n: at[compiled.columns[n]] for n in compiled}
    for name, sub in compiled.as_declared.items():
        if (form := sub.form) is not None and is_smooth_alone(form):
            names, forms = groups.setdefault(form.shape, ([], []))
            names.append(name)
            forms.append(form)
        else:
            cones[name] = ConeClient(sub, points[name])
    smooth = [SmoothClients(compiled, names, forms) for names, forms in groups.values()]
    costs = objectives(
        [*compiled.as_declared.values()], [points[n][None] for n in compiled.as_declared]
    )[:, 0]
    return Parts(smooth, cones), dict(zip(compiled.as_declared, costs.tolist(), strict=True))


def _of_smooth(group: SmoothClients, at: np.ndarray, known: Slopes) -> Gain:
    """What smooth clients could gain along a line, for certain."""
    down = -group.gradients(at)
    sure, faint = group.steps(at, -down)
    best, ways = np.fmax(group.sure_falls(at, at + sure), 0.0), np.abs(sure)
    farthest, endless = np.zeros(at.shape), np.zeros(at.shape)

    def falls(moves: np.ndarray) -> np.ndarray:
        return np.stack([group.sure_falls(at, at + one) for one in moves])

    for way in (known.scaled(sure), *known.ways(down)):
        if (best > 0).all():
            break
        line = _along(falls, way)
        ways = np.where((line.fall > best)[:, None], np.fmax(ways, np.abs(line.moved)), ways)
        best = np.maximum(best, line.fall)
        endless = np.where(line.is_endless[:, None], line.farthest, endless)
    if faint.any():
        farthest = np.abs(_along(falls, known.scaled(faint)).moved)
    return Gain(best, ways, farthest, np.where((best > 0)[:, None], 0.0, endless))


def _is_told(form: Form | None) -> TypeGuard[Form]:
    """Whether numbers of its own variables tell all of a client."""
    return form is not None and form.complete and form.valued and not form.extra


def _has_rows(form: Form | None) -> bool:
    """Whether it has constraints that are linear, and more than bounds."""
    if not _is_told(form) or any(term.is_set for term in form.terms):
        return False
    return bounds_of(form) is None


def _of_cones(
    compiled: Decomposition,
    parts: Parts,
    at: np.ndarray,
    costs: Mapping[Hashable, float],
    slopes: Slopes,
    ways: np.ndarray,
) -> dict[Hashable, Gain]:
    """What each client with constraints or kinks could gain, with rules that a server holds.

    ``ways`` are how far smooth clients go.
    """
    held, clients = _with_common_rules(compiled), {}
    for name in dict.fromkeys([*parts.cones, *held]):
        sub, part = compiled[name], compiled.columns[name]
        if sub.client.is_server or sub.client.is_remote or name not in costs:  # it left
            continue
        client = parts.cones.get(name)
        if name in held or client is None:
            client = ConeClient(sub, at[part], form=held[name])
        clients[name] = client
    stated = [name for name, client in clients.items() if _has_rows(client.form)]
    reaches = [slopes.of(compiled.columns[name]).sizes for name in stated]
    least = dict(zip(stated, fallen([clients[name] for name in stated], reaches), strict=True))
    found, others = {}, ways.copy()
    told = {name: client for name, client in clients.items() if _is_told(client.form)}
    for name, fell in least.items():
        if fell is not None:
            found[name] = _gain(clients[name], at[compiled.columns[name]], *fell)
    # Lines of all that have as many variables are tried at once
    by_size: dict[int, list[Hashable]] = {}
    for name, client in told.items():
        if name not in found:
            by_size.setdefault(client.own.size, []).append(name)
    for size, names in by_size.items():
        at_once = max(1, ROOM // (8 * 4 * FAR.size * max(1, size)))
        for some in (names[k : k + at_once] for k in range(0, len(names), at_once)):
            starts = np.array([compiled.columns[name].start for name in some])
            here = starts[:, None] + np.arange(size)
            those = [clients[name] for name in some], at[here], slopes.of(here)
            gains = _of_alike(*those, [costs[name] for name in some])
            found |= zip(some, gains, strict=True)
    for name in told:
        others[compiled.columns[name]] = found[name].way
    others = Alike.by_edges(compiled).most(others)
    for name in (name for name in clients if name not in told):
        part = compiled.columns[name]
        sizes, nothing = slopes.sizes[part], np.zeros(at[part].size)
        fall, move, _ = _in_boxes(clients[name], sizes, others[part], costs[name])
        found[name] = Gain(fall, np.abs(move), nothing, nothing)
    return {name: found[name] for name in [*told, *found]}


def _in_boxes(
    client: ConeClient, sizes: np.ndarray, way: np.ndarray, cost: float
) -> tuple[float, np.ndarray, bool]:
    """How far a client falls in a box, which way, and whether no wider one is known to be needed.

    Far from zero a box of x's own ``sizes`` is too wide for a cone solver; elsewhere one as wide as
    the client would go without its rows, or as others go, may be too small, unless it stops inside.
    """
    share = WIDER_BOX * float((np.abs(way) / sizes).max()) or 1.0
    least, nearer = 0.0, np.zeros(sizes.size)
    if share < 1:
        least, nearer = client.fall(share * sizes, cost)
        if least > 0 and (np.abs(nearer) < (1 - ENDLESS) * share * sizes).all():
            return least, nearer, True
    fall, move = client.fall(sizes, cost)
    return (fall, move, False) if fall > least else (least, nearer, True)


def _gain(client: ConeClient, at: np.ndarray, fall: float, move: np.ndarray) -> Gain:
    """The gain of a client that falls so far in a box: for ever, if as far again from there."""
    nothing, form = np.zeros(at.size), client.form
    beyond = at + 2 * move
    if form is None or form.is_outside(beyond):
        return Gain(fall, np.abs(move), nothing, nothing)
    if client.falls(beyond[None])[0] > (1 + ENDLESS) * fall:
        return Gain(0.0, nothing, nothing, move)
    return Gain(fall, np.abs(move), nothing, nothing)


def _of_alike(
    clients: Sequence[ConeClient], at: np.ndarray, known: Slopes, costs: Sequence[float]
) -> Iterator[Gain]:
    """What others of one size could gain along lines within their bounds, or in a box."""
    bounds = [bounds_of(form) for client in clients if _is_told(form := client.form)]
    down = np.stack([known.prices, np.where(known.is_zero, 0.0, known.prices)])
    ways = np.stack(known.ways(down), axis=1).reshape(4, *at.shape).swapaxes(0, 1)

    def kept(nth: int, moves: np.ndarray) -> np.ndarray:
        own = bounds[nth]
        return moves if own is None else np.clip(at[nth] + moves, *own) - at[nth]

    def falls(moves: np.ndarray) -> np.ndarray:
        found = np.empty(moves.shape[:2])
        for nth, client in enumerate(clients):
            points = at[nth] + kept(nth, moves[:, 4 * nth : 4 * nth + 4])
            each = client.falls(points.reshape(-1, at.shape[1]))
            found[:, 4 * nth : 4 * nth + 4] = each.reshape(points.shape[:2])
        return found

    line = _along(falls, ways.reshape(-1, at.shape[1]))
    for nth, (client, cost) in enumerate(zip(clients, costs, strict=True)):
        own = Line(*(one[4 * nth : 4 * nth + 4] for one in line))
        within = None if bounds[nth] is None else partial(kept, nth)
        yield _of_cone(client, at[nth], known.sizes[nth], cost, own, within)


def _of_cone(
    client: ConeClient,
    at: np.ndarray,
    sizes: np.ndarray,
    cost: float,
    line: Line,
    kept: Callable[[np.ndarray], np.ndarray] | None,
) -> Gain:
    """The same of one of them; ``kept`` keeps moves within bounds, if it has no other rows."""
    nothing = np.zeros(at.size)
    best, last = int(line.fall.argmax()), int(line.is_endless.argmax())
    if kept is not None and line.fall[best] > 0:
        return Gain(float(line.fall[best]), np.abs(kept(line.moved))[best], nothing, nothing)
    if kept is not None and line.is_endless[last]:
        return Gain(0.0, nothing, nothing, kept(line.farthest)[last])
    way = line.moved[best] if line.fall[best] > 0 else nothing
    fall, move, is_near = _in_boxes(client, sizes, way, cost)
    return Gain(fall, np.abs(move), nothing, nothing) if is_near else _gain(client, at, fall, move)


class Line(NamedTuple):
    """What is found along some ways.

    Attributes
    ----------
    fall : ndarray, shape (k,)
        How much lower it gets; zero of one that falls beyond the last point.
    moved, farthest : ndarray, shape (k, m)
        To where, and where it is known to go on.
    is_endless : ndarray of bool, shape (k,)
        Whether it falls beyond the last point.
    """

    fall: np.ndarray
    moved: np.ndarray
    farthest: np.ndarray
    is_endless: np.ndarray


def _along(falls: Callable[[np.ndarray], np.ndarray], ways: np.ndarray) -> Line:
    """The lowest points of some ways, (k, m), by the falls of some moves, (n, k, m)."""
    where, far = _lowest(falls, ways, FAR)
    is_endless = where == 0
    if is_endless.any():  # what is zero for a solver may be far from its natural size
        beyond, farther = _lowest(falls, ways, BEYOND)
        is_found = is_endless & (beyond > 0)
        far, is_endless = np.where(is_found, farther, far), is_endless & ~is_found
    near = far * BETWEEN[:, None]
    fine = np.fmax(falls(near[..., None] * ways), 0.0)
    closer, each = fine.argmax(axis=0), np.arange(len(ways))
    fall, moved = fine[closer, each], near[closer, each][:, None] * ways
    fall, moved = np.where(is_endless, 0.0, fall), np.where(is_endless[:, None], 0.0, moved)
    return Line(fall, moved, far[:, None] * ways, is_endless)


def _lowest(
    falls: Callable[[np.ndarray], np.ndarray], ways: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """At which of the steps each way is lowest, from the farthest on, and how far that is.

    At the nearest of some, as where bounds hold all. Minus one, and nowhere, where none leads down.
    """
    found = np.fmax(falls(steps[:, None, None] * ways), 0.0)
    is_lowest = (found > 0) & (found >= (1 - SUMMED) * found.max(axis=0))
    where = len(steps) - 1 - is_lowest[::-1].argmax(axis=0)
    is_down = is_lowest.any(axis=0)
    return np.where(is_down, where, -1), np.where(is_down, steps[where], 0.0)


def bounds_of(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of a client's entries, (low, high); None if it has other constraints."""
    is_wide = form.single_rows[-1]
    if form.equalities.rhs.size or is_wide or any(term.is_set for term in form.terms):
        return None
    return single_bounds(form)


def _with_common_rules(compiled: Decomposition) -> dict[Hashable, Form]:
    """The clients for which a server holds rules, with these rules.

    What agreeing costs does not depend on where a rule is held.
    """
    places, holder = compiled.form.common.places, compiled.holder
    rules = compiled[holder].form if places and holder is not None else None
    found: dict[Hashable, Form] = {}
    if rules is None or rules.extra or not rules.complete:
        return found
    homes = compiled.form.homes.items()  # a server's own variable has one of its own beside
    users = {v.id: key for key, local in homes for v in local.values() if v.id != key}

    def entries_of(name: Hashable) -> tuple[tuple[int, int], ...]:
        """Which entry of which variable of the user's each of a client's own is."""
        variables = compiled[name].variables
        return tuple((users.get(v.id, v.id), at) for v in variables for at in range(v.size))

    entries, made = entries_of(holder), {}
    for name in places:
        form = compiled[name].form
        if not _is_told(form):
            continue
        own = entries_of(name)
        if own not in made:  # most have the same variables, and so the very same rows
            made[own] = _seen_from(rules, entries, own)
        equalities, inequalities, terms = made[own]
        found[name] = form.with_others(
            equalities=_joined(form.equalities, equalities),
            inequalities=_joined(form.inequalities, inequalities),
            terms=(*form.terms, *terms),
        )
    return found


def _seen_from(
    rules: Form, entries: Sequence[tuple[int, int]], own: Sequence[tuple[int, int]]
) -> tuple[Rows, Rows, list[Term]]:
    """Equalities, inequalities and terms that touch nothing but a client's own entries."""
    places = {entry: at for at, entry in enumerate(own)}
    pairs = [(at, places[entry]) for at, entry in enumerate(entries) if entry in places]
    cells = np.ones(len(pairs)), tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)
    to_own = sp.csr_array(cells, shape=(len(entries), len(own)))
    is_absent = np.asarray(to_own.sum(axis=1)) == 0
    rows = []
    for held in (rules.equalities, rules.inequalities):
        is_here = ~(held.matrix[:, is_absent] != 0).any(axis=1)
        rows.append(Rows(held.matrix[is_here] @ to_own, held.rhs[is_here]))
    terms = [
        term._replace(matrix=sp.csr_array(term.matrix) @ to_own)
        for term in rules.terms
        if not np.any(sp.csr_array(term.matrix)[:, np.flatnonzero(is_absent)].data)
    ]
    return rows[0], rows[1], terms


def _joined(own: Rows, held: Rows) -> Rows:
    """A client's rows and those of the server."""
    if not own.rhs.size:
        return held
    matrix = np.vstack([own.matrix, held.matrix])
    return Rows(matrix, np.concatenate([own.rhs, held.rhs]))
