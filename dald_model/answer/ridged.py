"""Minimisers of clients with prices and ridges, by the methods of their rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import Form
from dald_model.solvers.base import NOTHING
from dald_model.solvers.exact.low_rank import PenalisedClient
from dald_model.solvers.exact.quadratic_step import Step, StepMethod
from dald_model.solvers.exact.semismooth_newton import SemismoothNewton

Found = tuple[np.ndarray, Sequence[np.ndarray]]
"""Minimisers, (k, m), NaN where the method failed, and the multipliers of each."""


class Batch:
    """Clients of one shape by the method of most rounds, all at once, to some errors, (n, m)."""

    def __init__(self, forms: Sequence[Form], errors: np.ndarray) -> None:
        self._forms, self._errors, self._method = forms, errors, SemismoothNewton(forms)

    def minimise(self, which: np.ndarray, prices: np.ndarray, ridges: np.ndarray) -> Found:
        """Those of some clients with prices and ridges, (k, m)."""
        forms = [self._forms[at] for at in which.tolist()]
        step = stepped(self._method, which, forms, prices, self._errors[which], ridges)
        told = step.multipliers
        points = np.where(step.failed[:, None], np.nan, step.points)
        return points, np.split(told.values, np.cumsum(told.lengths)[:-1])


class Wide:
    """The same of clients with more variables than rows of data, without their Hessians."""

    def __init__(self, forms: Sequence[Form]) -> None:
        each = sp.eye_array(forms[0].size, format="csr")
        self._clients = [PenalisedClient(form, each) for form in forms]

    def minimise(self, which: np.ndarray, prices: np.ndarray, ridges: np.ndarray) -> Found:
        """See :class:`Batch`; a ridge is twice the square of a penalty."""
        points, multipliers = np.full(prices.shape, np.nan), []
        for k, (at, price, ridge) in enumerate(zip(which.tolist(), prices, ridges, strict=True)):
            client = self._clients[at]
            client.take(np.sqrt(ridge / 2))
            found = client.minimise(price)
            multipliers.append(NOTHING if found is None else found[2])
            if found is not None:
                points[k] = found[0]
        return points, multipliers


def stepped(
    method: StepMethod,
    which: np.ndarray,
    forms: Sequence[Form],
    prices: np.ndarray,
    errors: np.ndarray,
    ridges: np.ndarray,
) -> Step:
    """The minimisers with prices and ridges."""
    hessians = np.stack([form.quadratic.full for form in forms])
    linear = np.stack([form.quadratic.linear for form in forms])
    method.factor(which, hessians + ridges[:, :, None] * np.eye(ridges.shape[1]))
    return method.solve(which, linear + prices, errors)
