"""Results as plain Python, for JSON, experiment trackers and other programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from dald_model.declare.wording import symbolic

if TYPE_CHECKING:
    from dald_model.answer.answer import Answer


def result_as_dict(result: Answer) -> dict[str, Any]:
    """A result as numbers, text, lists and dicts; see :meth:`dald_model.Result.to_dict`."""
    model = result.compiled.model
    return {
        "model": model.name,
        "status": str(result.status),
        "detail": result.detail,
        "value": plain(result.value),
        "rounds": result.rounds,
        "answer_round": result.answer_round,
        "seconds": result.seconds,
        "eps_pri": result.eps_pri,
        "eps_dual": result.eps_dual,
        "variables": {
            v.name(): plain(result.recovered.values[v.id])
            for v in model.variables
            if v.id in result.recovered.values
        },
        "dual_values": [
            {"constraint": symbolic(rule), "value": plain(result.duals[rule])}
            for rule in result.duals
        ],
        "history": [
            {str(column): plain(entry) for column, entry in row.items()}
            for row in result.history.to_dict("records")
        ],
    }


def plain(value: Any) -> Any:
    """A value that JSON knows: arrays as nested lists, numbers that are not finite as None."""
    if scipy.sparse.issparse(value):
        value = value.toarray()
    match value:
        case None | bool() | str():
            return value
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value) if math.isfinite(value) else None
        case np.ndarray():
            return plain(value.tolist())
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
    return str(value)
