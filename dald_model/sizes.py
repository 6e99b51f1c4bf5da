"""Sizes that several files compare with: what doubles round, and what arrays cost.

Relative to what is compared; the examples are of doubles, whose epsilon is 2.2e-16.
"""

from __future__ import annotations

import numpy as np

EPSILONS = 8 * float(np.finfo(float).eps)
"""What one operation leaves of zero: an inner product, an eigenvalue beside the largest."""
ROUNDING = 1e-14
"""Share of what a number is a sum of below which it is a rounding error."""
SUMMED = 1e-12
"""The same of sums of a few thousand doubles, and of a pivot beside its diagonal entry: the least
of 900 Gram matrices of deficient rank, up to 100 x 100, is 9e-14 at most."""
DEPENDENT = 1e-10
"""Share of the largest singular value, or of a diagonal, that rows which depend on others leave."""
SAME = 1e-9
"""Relative difference of two numbers that are one, computed in two ways: sums in another order
differ by some 1e-13, and least eigenvalues of a Gram matrix of 1e6 rows by less than this."""
ORDER = 10.0
"""Factor beyond which another size asks for other units: one of the right order is as good."""
INFINITE = 1e20
"""Bounds from here on are none, as in MPS files, Clarabel and test sets of quadratic programs."""

HALVINGS = 40
"""How often a step is halved at most: it is 1e-12 of its length then."""
STEPS = 6
"""Newton steps near an answer at most; two are enough, and the first that does not help ends it."""
LIMIT = 200
"""Steps of an iteration after which it has failed."""

INNER = 0.1
"""Share of the errors allowed that an inner solve leaves: what its point is off passes for
curvature where models are learned, and 0.5 took 63 rounds for 60 on a grid of logistic clients."""

SPARSE = 0.25
"""Share of nonzeros below which products with sparse matrices are faster.

Measured: both are as fast at 0.28 for (100, 100) in cache, at 0.4 for 20 matrices of (8, 785), and
beyond 0.7 for 500 of these, which come from memory.
"""
DATA = 0.5
"""Share of entries from which on a matrix is data: of 784 pixels of digits 717 are in use. With
fewer it selects: a row of an incidence matrix has the edges of its node."""
SMALL = 10_000
"""Entries up to which a dense product takes less than scipy does before its own begins: of 80 rows
of 117 entries 7 microseconds against 15."""
CACHE, SHARED = 2**20, 2**22
"""Bytes that stay in a core's own cache between two passes over them, and in the cache of all cores
from one step of a batch to the next, where numpy's overhead is shared by enough clients."""
ROOM = 2**25
"""Bytes of matrices of many clients that are held at once, 32 MiB."""
FEW, MANY = 64, 300
"""Variables of a client up to which a dense matrix of them is no work, and each is looked at by
itself; and beyond which a hint is not worth the factor of one."""
TOGETHER = 256
"""Clients whose numbers are taken together: enough to be fast, few enough to need little memory."""
CACHED = 4096
"""How much is kept of what can be made again."""
