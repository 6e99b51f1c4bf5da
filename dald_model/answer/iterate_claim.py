"""What an iterate of a run claims, before it is an answer."""

from __future__ import annotations

import numpy as np

from dald_model.answer.claim import Claim
from dald_model.answer.domains import clients_inside, settle
from dald_model.compile.decomposition import Decomposition
from dald_model.coordinate.state import State
from dald_model.coordinate.status import Status


def claim_of_state(compiled: Decomposition, state: State) -> Claim:
    """The claim that a state is optimal, with the multipliers that its clients balance."""
    lengths = state.units.point_lengths
    points = {name: state.points[part] for name, part in compiled.columns.items()}
    points = clients_inside(compiled, points, lengths)
    recovered = compiled.recover(points, {}, state.estimate)
    settle(compiled, recovered, lengths)
    return Claim(
        compiled,
        recovered.values,
        points,
        recovered.at_clients,
        state.estimate,
        float("nan"),
        Status.OPTIMAL,
        tuple(compiled),
        np.zeros(compiled.size, dtype=bool),
    )
