r"""What the clients pay for agreeing, at least.

Whatever points :math:`y_i \in X_i` the clients go to by themselves,

.. math:: S = \sum_i \Big[ f_i(x) - f_i(y_i) \Big] \le \sum_i \Big[ f_i(x) - \min_{X_i} f_i \Big],

so nothing has to be minimised for a yardstick that is never too long, and a client that falls for
ever needs no rule of its own. A client goes

* with kinks or bounds, along its price p, as one that agrees for it has the slope -p; with each
  entry over its curvature, or over the square of its steepness;
* if it is smooth, so down its gradient, and along its Newton step;
* also with the entries held that are zero, as kinks may hold them;
* with other constraints, or where no line leads down, to its minimum within a box.

Along a line the best of the lengths that are tried has 99 % of what a quadratic falls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dald_model.answer.bound import Parts
from dald_model.answer.cone_clients import ConeClient
from dald_model.answer.smooth_clients import SmoothClients
from dald_model.compile.decomposition import Decomposition
from dald_model.compile.form import Form, Rows

FAR = 4.0 ** np.arange(15, -13, -1)
"""How far along a way is tried, in sizes of variables; the first alone where one falls beyond the
last, as of what falls for ever nothing else says how much of it counts."""
NEAR = 2.0 ** np.linspace(-1.25, 1.25, 13)
"""Where it is tried between these."""
WIDE = 4.0
"""How many times as far as along a line the box of a client with rows reaches."""
ZERO = 1e-6
"""Share of how far it would go below which an entry is zero, where a kink may hold it."""
ONE = int(np.flatnonzero(FAR == 1.0)[0])


class Slopes(NamedTuple):
    """What is known of the objectives at the point, of all variables one after the other.

    Attributes
    ----------
    steep, bent : ndarray
        How steep and how curved each is along each entry; zero where that is not known.
    prices, sizes, widths : ndarray
        What each entry is charged, how far it is from zero, and how far it may go: as far, or to
        the minimum of its own curvature, or at zero without one as far as others of its variable.
    """

    steep: np.ndarray
    bent: np.ndarray
    prices: np.ndarray
    sizes: np.ndarray
    widths: np.ndarray

    def of(self, columns: Any) -> Slopes:
        """Those of some variables."""
        return Slopes(*(one[columns] for one in self))

    def ways(self, down: np.ndarray) -> list[np.ndarray]:
        """Two ways down, in sizes."""
        ways = down / np.where(self.bent > 0, self.bent, np.inf), down / self.steep**2
        return [self.scaled(np.where(np.isfinite(way), way, 0.0)) for way in ways]

    def scaled(self, way: np.ndarray) -> np.ndarray:
        """A way along which the entries that move do so by their sizes, in the geometric mean."""
        shares = np.abs(way / self.sizes)
        logs = np.where(shares > 0, np.log(shares), 0.0).sum(axis=-1, keepdims=True)
        return way / np.exp(logs / np.maximum((shares > 0).sum(axis=-1, keepdims=True), 1))


class Paid(NamedTuple):
    """What clients could gain.

    Attributes
    ----------
    falls : dict
        Client -> what it could gain by itself, at least.
    ways, farthest : ndarray
        How far all entries go for that, and where curvature that is rounding is the least there is.
    """

    falls: dict[Hashable, float]
    ways: np.ndarray
    farthest: np.ndarray


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
    found: dict[Hashable, float] = {}
    ways, unsure = np.zeros((2, at.size))
    with np.errstate(all="ignore"):
        for group in parts.groups:
            here = group.columns
            falls, ways[here], unsure[here] = _of_smooth(group, at[here], slopes)
            found |= dict(zip(group.names, falls.tolist(), strict=True))
        held = _with_common_rules(compiled)
        for name in dict.fromkeys([*parts.cones, *held]):
            sub, part = compiled[name], compiled.columns[name]
            if sub.client.is_server or sub.client.is_remote:
                continue
            client = parts.cones.get(name)
            if name in held or client is None:
                client = ConeClient(sub, at[part], form=held[name])
            found[name], ways[part] = _of_cone(client, at[part], slopes.of(part), costs[name])
    ways, unsure = (np.where(np.isfinite(one), one, 0.0) for one in (ways, unsure))
    return Paid(found, ways, np.maximum(ways, unsure))


def _of_smooth(
    group: SmoothClients, at: np.ndarray, slopes: Slopes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How much lower smooth clients are along a line, for certain, (k,), and how far they go.

    At least, and where curvature is rounding.
    """
    down, known = -group.gradients(at), slopes.of(group.columns)
    sure, faint = group.steps(at, -down)
    best, ways = np.fmax(group.sure_falls(at, at + sure), 0.0), np.abs(sure)

    def searched(way: np.ndarray) -> Line:
        return _along(
            lambda steps: np.stack([group.sure_falls(at, at + s[:, None] * way) for s in steps]),
            len(at),
        )

    for way in (known.scaled(sure), *known.ways(down)):
        if (best > 0).all():
            break
        line = searched(way)
        moved = line.far[:, None] * np.abs(way)
        ways = np.where((line.fall > best)[:, None], np.fmax(ways, moved), ways)
        best = np.maximum(best, line.fall)
    if not faint.any():
        return best, ways, faint
    unsure = known.scaled(faint)
    return best, ways, searched(unsure).farthest[:, None] * np.abs(unsure)


def _of_cone(
    client: ConeClient, at: np.ndarray, known: Slopes, cost: float
) -> tuple[float, np.ndarray]:
    """How much lower another client is along a line within its bounds, or in a box; and where."""
    form = client.form
    if form is None or form.extra or not (form.complete and form.valued):
        return client.fall(known.widths, cost)
    is_zero, bounds = np.abs(at) <= ZERO * known.widths, bounds_of(form)
    down = known.prices, np.where(is_zero, 0.0, known.prices)
    ways = np.stack([way for one in down for way in known.ways(one)])

    def reached(far: np.ndarray) -> np.ndarray:
        points = at + far[..., None] * ways
        return points if bounds is None else np.clip(points, *bounds)

    def falls(far: np.ndarray) -> np.ndarray:
        return client.falls(reached(far).reshape(-1, at.size)).reshape(far.shape)

    line = _along(falls, len(ways))
    way = int(line.fall.argmax())
    if bounds is not None and line.fall[way] > 0:
        return float(line.fall[way]), np.abs(reached(line.far)[way] - at)
    # Far from zero a box of x's own size is too wide for a cone solver, elsewhere one as wide as
    # the client would go without its rows may be too small
    tried = {min(1.0, WIDE * line.far[way]), 1.0} if line.fall[way] > 0 else {1.0}
    return max((client.fall(one * known.widths, cost) for one in tried), key=lambda pair: pair[0])


class Line(NamedTuple):
    """What is found along some ways, each (count,).

    Attributes
    ----------
    fall, far : ndarray
        What counts of the fall, and where that is.
    farthest : ndarray
        How far it is known to go on.
    """

    fall: np.ndarray
    far: np.ndarray
    farthest: np.ndarray


def _along(falls: Callable[[np.ndarray], np.ndarray], count: int) -> Line:
    """The lowest points of some ways, by the falls at (n, count) steps."""
    coarse = np.fmax(falls(np.repeat(FAR[:, None], count, axis=1)), 0.0)
    where, each = coarse.argmax(axis=0), np.arange(count)
    farthest = np.where(coarse.any(axis=0), FAR[where], 0.0)
    near = farthest * NEAR[:, None]
    fine = np.fmax(falls(near), 0.0)
    closer = fine.argmax(axis=0)
    is_endless = where == 0
    fall = np.where(is_endless, coarse[ONE], fine[closer, each])
    return Line(fall, np.where(is_endless, 1.0, near[closer, each]), farthest)


def bounds_of(form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of a client's entries, (low, high); None if it has other constraints."""
    is_wide = np.count_nonzero(form.inequalities.matrix, axis=1) > 1
    if form.equalities.rhs.size or is_wide.any() or any(term.is_set for term in form.terms):
        return None
    return single_bounds(form)


def single_bounds(form: Form) -> tuple[np.ndarray, np.ndarray]:
    """What the rows of a single entry each allow it, (low, high)."""
    high = np.full(form.size, np.inf)
    low = -high
    matrix, right = form.inequalities
    single = np.count_nonzero(matrix, axis=1) == 1
    single &= ~matrix[:, form.size :].any(axis=1)
    matrix, right = matrix[single], right[single]
    entries = np.abs(matrix).argmax(axis=1)
    slopes = matrix[np.arange(entries.size), entries]
    at, is_upper = right / slopes, slopes > 0
    np.minimum.at(high, entries[is_upper], at[is_upper])
    np.maximum.at(low, entries[~is_upper], at[~is_upper])
    return low, high


def _with_common_rules(compiled: Decomposition) -> dict[Hashable, Form]:
    """The clients for which a server holds rules, with these rules.

    What agreeing costs does not depend on where a rule is held.
    """
    places, holder = compiled.form.common.places, compiled.holder
    rules = compiled[holder].form if places and holder is not None else None
    found: dict[Hashable, Form] = {}
    if rules is None or rules.extra or not rules.complete:
        return found
    entries = _entries(compiled, holder)
    for name in places:
        form = compiled[name].form
        if form is None or form.extra or not (form.complete and form.valued):
            continue
        own = {entry: at for at, entry in enumerate(_entries(compiled, name))}
        pairs = [(at, own[entry]) for at, entry in enumerate(entries) if entry in own]
        cells = np.ones(len(pairs)), tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)
        to_own = sp.csr_array(cells, shape=(len(entries), form.size))
        is_absent = np.asarray(to_own.sum(axis=1)) == 0
        found[name] = form.with_others(
            equalities=_joined(form.equalities, rules.equalities, to_own, is_absent),
            inequalities=_joined(form.inequalities, rules.inequalities, to_own, is_absent),
            terms=(
                *form.terms,
                *(
                    term._replace(matrix=sp.csr_array(term.matrix) @ to_own)
                    for term in rules.terms
                    if not np.any(sp.csr_array(term.matrix)[:, np.flatnonzero(is_absent)].data)
                ),
            ),
        )
    return found


def _entries(compiled: Decomposition, name: Hashable) -> list[tuple[int, int]]:
    """Which entry of which variable of the user's each of a client's own is."""
    homes = compiled.form.homes.items()  # a server's own variable has one of its own beside
    users = {v.id: key for key, local in homes for v in local.values() if v.id != key}
    return [(users.get(v.id, v.id), at) for v in compiled[name].variables for at in range(v.size)]


def _joined(own: Rows, held: Rows, to_own: sp.csr_array, is_absent: np.ndarray) -> Rows:
    """A client's rows and those of the server that touch nothing but its entries."""
    is_here = ~(held.matrix[:, is_absent] != 0).any(axis=1)
    matrix = np.vstack([own.matrix, held.matrix[is_here] @ to_own])
    return Rows(matrix, np.concatenate([own.rhs, held.rhs[is_here]]))
