r"""Ways to deal the rows of a data set to clients, from alike to unlike, for experiments.

===============  =================================================  =====================
function         a client's rows                                    source
===============  =================================================  =====================
`even`           drawn at random, as many as any other's            McMahan et al., "IID"
`alternating`    two classes, in turn 4 : 1 and 1 : 4               the paper, VI-B
`label_skew`     a few shards, each of one label                    McMahan et al.
`dirichlet`      of each label a share drawn from a Dirichlet law   Yurochkin et al.
===============  =================================================  =====================

Each returns a list of index arrays, one a client, so that it works on any data::

    parts = dirichlet(dataset.target, clients=10, concentration=0.5, seed=0)
    shards = [(dataset.features[rows], dataset.target[rows]) for rows in parts]

and `heterogeneity` says how skewed it came out. A figure obtained on a partition must quote the
function, its arguments and the seed; the same call gives the same rows.

References
----------
McMahan, Moore, Ramage, Hampson, Aguera y Arcas (2017): Communication-efficient learning of deep
networks from decentralized data. AISTATS. arXiv:1602.05629.

Yurochkin, Agarwal, Ghosh, Greenewald, Hoang, Khazaeni (2019): Bayesian nonparametric federated
learning of neural networks. ICML. arXiv:1905.12022.

Hsu, Qi, Brown (2019): Measuring the effects of non-identical data distribution for federated
visual classification. arXiv:1909.06335.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dald_model.errors import DeclarationError
from dald_model.validate import check_whole, is_number, is_whole

Rows = NDArray[np.intp]
"""Indices into the rows of a data set, without repetition."""

_TRIES = 1000
"""How often `dirichlet` draws before it gives up."""


def even(rows: int, clients: int, seed: int) -> list[Rows]:
    """Deal shuffled rows in equal numbers: every client sees the same distribution, but for chance.

    Parameters
    ----------
    rows
        How many rows there are. Each is used once.
    clients
        From 1 to `rows`. Their numbers of rows differ by one at most.
    seed
        Of ``numpy.random.default_rng``. The parts are those of `Dataset.split` of the same seed.

    Raises
    ------
    DeclarationError
        If a client would be without rows.
    """
    check_whole("The number of rows is ", rows, error=DeclarationError)
    _check(clients, rows)
    return np.array_split(np.random.default_rng(_checked(seed)).permutation(rows), clients)


def alternating(target: ArrayLike, clients: int, seed: int = 42) -> list[Rows]:
    r"""Deal two classes as the paper does (Section VI-B): four to one, in turn the other way.

    With the shuffled rows :math:`p` of the lesser label and :math:`q` of the greater one, client
    :math:`i = 0, \dots, n-1` has

    ====  ===============  ===============
    i     lesser label     greater label
    ====  ===============  ===============
    even  ``p[i::n]``      ``q[i::4 * n]``
    odd   ``p[i::4 * n]``  ``q[i::n]``
    ====  ===============  ===============

    No row is used twice and about three eighths of them by nobody. Of MNIST's 3 and 7 the clients
    hold 7,753 rows for n = 10 and 8,198 for n = 1,000, out of 12,396.

    Parameters
    ----------
    target
        Shape ``(rows,)``, two distinct values.
    clients
        At most the rows of the rarer label.
    seed
        Of ``numpy.random.RandomState``, which shuffles `p`, then `q`. The default reproduces
        Table 2 of the paper.

    Raises
    ------
    DeclarationError
        If there are not two labels, or a client would be without rows.
    """
    labels, where = _labels(target)
    if len(labels) != 2:
        raise DeclarationError(
            f"The target has {len(labels)} distinct values. Expected: two classes, which alternate "
            "between the clients. Choose the rows of two classes, or deal more of them with "
            "label_skew or dirichlet."
        )
    _check(clients, int(np.bincount(where).min()), "rows of the rarer class")
    # The paper's generator: default_rng shuffles otherwise.
    if not is_whole(seed, 0, 2**32 - 1):
        raise DeclarationError(
            f"The seed is {seed!r}. Expected: a whole number from 0, below 2**32, as "
            "numpy.random.RandomState takes it. Choose a smaller one."
        )
    generator = np.random.RandomState(seed)
    classes = [np.flatnonzero(where == at) for at in range(2)]
    for indices in classes:
        generator.shuffle(indices)
    strides = (clients, 4 * clients)
    return [
        np.concatenate([classes[at][client :: strides[(client + at) % 2]] for at in range(2)])
        for client in range(clients)
    ]


def label_skew(target: ArrayLike, clients: int, labels_per_client: int, seed: int) -> list[Rows]:
    """Deal shards of one label each, so that a client sees few labels (McMahan et al. 2017).

    The rows, sorted by label and shuffled within it, are cut into ``clients * labels_per_client``
    shards, and each client draws `labels_per_client` of them. It may draw two of the same label and
    then sees fewer. McMahan et al. cut shards of one size, of which some straddle two labels;
    here a label is cut by itself, and their number is such that the largest shard is as small as it
    can be. So sizes differ when the labels are not equally frequent.

    Parameters
    ----------
    target
        Shape ``(rows,)``, labels. Each row is used once.
    clients, labels_per_client
        Their product is at least the number of labels and at most that of rows.
    seed
        Of ``numpy.random.default_rng``.

    Raises
    ------
    DeclarationError
        If the target looks like a regression's, or the product is out of range.
    """
    labels, where = _labels(target)
    _check(clients, len(where))
    shards = clients * labels_per_client if is_whole(labels_per_client, 1) else 0
    if not len(labels) <= shards <= len(where):
        raise DeclarationError(
            f"{clients} clients with {labels_per_client} labels each need {shards} shards. "
            f"Expected: from {len(labels)}, the number of labels, to {len(where)}, the number of "
            "rows, so that every row is dealt and no shard is empty. Change clients or "
            "labels_per_client."
        )
    counts = np.bincount(where)
    pieces = np.ones(len(labels), dtype=int)
    for _ in range(shards - len(labels)):
        pieces[np.argmax(counts / pieces)] += 1
    generator = np.random.default_rng(_checked(seed))
    cut = [
        piece
        for at, number in enumerate(pieces)
        for piece in np.array_split(generator.permutation(np.flatnonzero(where == at)), number)
    ]
    hands = generator.permutation(shards).reshape(clients, labels_per_client)
    return [np.concatenate([cut[shard] for shard in hand]) for hand in hands]


def dirichlet(
    target: ArrayLike, clients: int, concentration: float, seed: int, smallest: int = 1
) -> list[Rows]:
    r"""Deal each label in random proportions: the smaller the concentration, the more skewed.

    For every label the shares of the clients are drawn as :math:`p \sim \mathrm{Dir}(\alpha, \dots,
    \alpha)` in :math:`n` dimensions, independently, and its shuffled rows are cut accordingly.
    Numbers of rows come out unequal too. The draw is repeated until no client has fewer than
    `smallest` rows. This is the scheme of Yurochkin et al.; Hsu et al. draw, for every client with
    a number of rows given, the shares of the labels. Both tend to one client a label for
    :math:`\alpha \to 0` and to equal distributions for :math:`\alpha \to \infty`.

    Parameters
    ----------
    target
        Shape ``(rows,)``, labels. Each row is used once.
    clients
        The number :math:`n`.
    concentration
        :math:`\alpha > 0`. Usual: 0.1 (strong skew) to 100 (hardly any).
    seed
        Of ``numpy.random.default_rng``.
    smallest
        The rows that each client has at least, 1 or more.

    Raises
    ------
    DeclarationError
        If the target looks like a regression's, an argument is out of range, or no draw of a
        thousand gives each client `smallest` rows.
    """
    labels, where = _labels(target)
    _check(clients, len(where))
    if not (is_number(concentration) and 0 < concentration < np.inf):
        raise DeclarationError(
            f"The concentration is {concentration}. Expected: a positive number. Choose 0.1 for "
            "much skew, 100 for hardly any."
        )
    if not is_whole(smallest, 1, len(where) // clients):
        raise DeclarationError(
            f"{clients} clients cannot have {smallest} rows at least. Expected: from 1 to "
            f"{len(where) // clients}, their even share of {len(where)} rows. Change smallest or "
            "clients."
        )
    generator = np.random.default_rng(_checked(seed))
    counts = np.bincount(where)
    for _ in range(_TRIES):
        shares = generator.dirichlet(np.full(clients, concentration), size=len(labels))
        ends = np.rint(np.cumsum(shares, axis=1) * counts[:, None]).astype(int)
        ends[:, -1] = counts
        sizes = np.diff(ends, axis=1, prepend=0).sum(axis=0)
        if sizes.min() >= smallest:
            break
    else:
        raise DeclarationError(
            f"In {_TRIES} draws with concentration {concentration} some of the {clients} clients "
            f"always had fewer than {smallest} rows. Expected: a draw that gives each of them "
            "so many. Raise concentration, or lower smallest or clients."
        )
    cut = [
        np.split(generator.permutation(np.flatnonzero(where == at)), ends[at, :-1])
        for at in range(len(labels))
    ]
    return [np.concatenate(pieces) for pieces in zip(*cut, strict=True)]


def heterogeneity(target: ArrayLike, parts: Sequence[Rows]) -> float:
    r"""The mean total-variation distance of the clients' label distributions from the pooled one.

    .. math::
        \frac{1}{n} \sum_{i=1}^n \frac{1}{2} \sum_c | p_i(c) - p(c) |

    where :math:`p_i(c)` is the share of label :math:`c` in the rows of client :math:`i` and
    :math:`p(c)` that in the rows of all clients together; rows that nobody has do not count. The
    sum over :math:`c` halved is the total-variation distance: the share of a client's rows that
    would have to change their label.

    Parameters
    ----------
    target
        Shape ``(rows,)``, labels.
    parts
        The rows of each client, as the functions above return them.

    Returns
    -------
    float
        From 0, all clients alike, to below 1. Two classes of equal size, each client with one of
        them, give 0.5; ten give 0.9.

    Raises
    ------
    DeclarationError
        If the target looks like a regression's, or a client has no rows.
    """
    labels, where = _labels(target)
    parts = _parts(parts, len(where))
    if not len(parts) or min(len(rows) for rows in parts) == 0:
        raise DeclarationError(
            "A distribution of labels is missing. Expected: at least one client, and rows at each. "
            "Leave the clients without rows out."
        )
    counts = np.array([np.bincount(where[rows], minlength=len(labels)) for rows in parts])
    own = counts / counts.sum(axis=1, keepdims=True)
    pooled = counts.sum(axis=0) / counts.sum()
    return float(np.abs(own - pooled).sum(axis=1).mean() / 2)


def _parts(given: object, rows: int) -> list[Rows]:
    """The rows of each client, as arrays of indices."""
    expected = f"Expected: a list of indices from 0, below {rows}, for each client, as dealt here."
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DeclarationError(f"The parts are of type {type(given).__name__}. {expected}")
    found = []
    for at, part in enumerate(given):
        own = np.asarray(part)
        own = own.astype(np.intp) if own.size == 0 else own
        in_range = own.dtype.kind in "iu" and own.ndim == 1 and ((own >= 0) & (own < rows)).all()
        if not in_range:
            raise DeclarationError(f"Part {at} is {part!r}. {expected}")
        found.append(own)
    return found


def _checked(seed: int) -> int:
    check_whole("The seed is ", seed, 0, error=DeclarationError)
    return seed


def _check(clients: int, most: int, what: str = "rows") -> None:
    if not is_whole(clients, 1, most):
        raise DeclarationError(
            f"The rows cannot be dealt to {clients} clients. Expected: from 1 to {most}, the "
            f"number of {what}, so that none is without rows. Choose a number in that range."
        )


def _labels(target: ArrayLike) -> tuple[NDArray, Rows]:
    """The distinct labels in order, and the place of each row's label among them.

    More labels than 20 and than the square root of the rows are a regression: the 62 characters
    of EMNIST or the 1,000 classes of ImageNet pass, the 214 scores of 442 diabetics do not.
    """
    given = np.asarray(target)
    bad = given.dtype.kind not in "biufSU" or (given.dtype.kind == "f" and np.isnan(given).any())
    if bad:
        raise DeclarationError(
            f"The target is of type {given.dtype} or holds NaN. Expected: labels that are numbers "
            "or text, one for each row. Drop the rows without a label, or name them."
        )
    labels, where = np.unique(given, return_inverse=True)
    if np.ndim(target) != 1 or len(labels) > max(20, len(where) ** 0.5):
        raise DeclarationError(
            f"A target of shape {np.shape(target)} has {len(labels)} distinct values. Expected: "
            "labels in one dimension, few of them. Bin the target of a regression first, such as "
            "with numpy.digitize(target, numpy.quantile(target, [0.25, 0.5, 0.75]))."
        )
    return labels, where
