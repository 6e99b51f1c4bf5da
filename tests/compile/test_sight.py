"""What a side of an edge makes of its client's curvatures."""

import numpy as np
import pytest
import scipy.sparse as sp

from dald_model.compile.affine_maps import Sight


@pytest.mark.parametrize(
    ("row", "curvatures", "found"),
    [
        ([1.0, 0.0], [3.0, 5.0], 3.0),  # the side is the variable
        ([2.0, 0.0], [3.0, 5.0], 3.0 / 4),  # it moves half as far as the side
        ([1.0, 1.0], [4.0, 4.0], 2.0),  # both move by half
        ([1.0, 10.0], [3.0, 0.0], 3.0),  # what is free says nothing of the size
        ([1.0, 10.0], [0.0, 0.0], 0.0),
        ([0.0, 0.0], [3.0, 5.0], 0.0),  # a constant side
    ],
)
def test_a_side_is_as_stiff_as_what_moves_with_it(
    row: list[float], curvatures: list[float], found: float
) -> None:
    sight = Sight(sp.csr_array(np.array([row])))
    assert sight.curvatures(np.array(curvatures)) == pytest.approx([found])
