"""Matrices and offsets of affine expressions, against the values that cvxpy gives them."""

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy.atoms.affine import wraps  # noqa: TID251 - atoms that cvxpy makes itself
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dald_model.declare.affine import Moving, affine_map, affine_parts, explicit
from tests.expect import flat

untyped: Any = cp
"""Where cvxpy's annotations are narrower than cvxpy."""

RNG = np.random.default_rng(0)
A = RNG.normal(size=(5, 6))
B = RNG.normal(size=(3, 4))
C = RNG.normal(size=(2, 3))
N = RNG.normal(size=(2, 5, 3))
THIN = sp.csr_array(A * (np.abs(A) > 0.5))
MASK = RNG.random(3000) > 0.5
PLACES = RNG.integers(0, 3000, size=1500)

x = cp.Variable(6, name="x")
X = cp.Variable((3, 4), name="X")
S = cp.Variable((3, 3), name="S")
T = cp.Variable((2, 3, 4), name="T")
z = cp.Variable(name="z")
one = cp.Variable(1, name="one")
square = cp.Variable((1, 1), name="square")
wide = cp.Variable(3000, name="wide")
symmetric = cp.Variable((3, 3), symmetric=True)
positive = cp.Variable((3, 3), PSD=True)
negative = cp.Variable((3, 3), NSD=True)
diagonal = cp.Variable((3, 3), diag=True)
nonneg = cp.Variable(3, nonneg=True)
boxed = cp.Variable(3, bounds=[-1, 1])
P = cp.Parameter((5, 6), value=A)
q = cp.Parameter(value=2.5)

ATOMS: dict[str, Callable[[], Any]] = {
    "entry": lambda: x[3],
    "last entry": lambda: x[-1],
    "slice with step": lambda: x[1:5:2],
    "slice backwards": lambda: x[::-1],
    "slice of nothing": lambda: x[2:2],
    "row": lambda: X[1],
    "column": lambda: X[:, 2],
    "slices of both": lambda: X[::-2, 1::2],
    "slices of three": lambda: T[1, :, 2],
    "ellipsis": lambda: T[..., 1],
    "new axis": lambda: x[None, :],
    "boolean array of 3000": lambda: wide[MASK],
    "integer array of 1500": lambda: wide[PLACES],
    "list": lambda: x[[0, 0, 3]],
    "boolean matrix": lambda: X[B > 0],
    "two lists": lambda: X[[0, 1], [2, 3]],
    "list of columns": lambda: X[:, [3, 0]],
    "open mesh": lambda: X[np.ix_([0, 2], [1, 3])],
    "reshape C": lambda: cp.reshape(X, (4, 3), order="C"),
    "reshape F": lambda: cp.reshape(X, (4, 3), order="F"),
    "reshape with -1": lambda: cp.reshape(X, (2, -1), order="C"),
    "reshape of three C": lambda: cp.reshape(T, (6, 4), order="C"),
    "reshape of three F": lambda: cp.reshape(T, (6, 4), order="F"),
    "vec C": lambda: cp.vec(X, order="C"),
    "vec F": lambda: cp.vec(X, order="F"),
    "flatten": lambda: X.flatten(order="C"),
    "vstack": lambda: cp.vstack([X, B, X[:1]]),
    "hstack": lambda: cp.hstack([x, z, 3]),
    "hstack of matrices": lambda: cp.hstack([X, S]),
    "bmat": lambda: cp.bmat([[X, S], [B, 2 * S]]),
    "concatenate": lambda: cp.concatenate([X, B], axis=0),
    "concatenate columns": lambda: cp.concatenate([X, S], axis=1),
    "stack": lambda: cp.stack([X, B, X], axis=1),
    "stack first": lambda: cp.stack([x, x[::-1]]),
    "stack last": lambda: cp.stack([x, x[::-1]], axis=-1),
    "kron from the left": lambda: cp.kron(B, X),
    "kron from the right": lambda: cp.kron(X, B),
    "kron of a Parameter": lambda: cp.kron(P, X),
    "convolve": lambda: cp.convolve(A[0], x),
    "convolve a short one": lambda: cp.convolve(np.array([1.0, 2.0, 3.0]), x + 1),
    "cumsum": lambda: cp.cumsum(x),
    "cumsum of rows": lambda: cp.cumsum(X, axis=0),
    "cumsum of columns": lambda: cp.cumsum(X, axis=1),
    "cumsum of three": lambda: cp.cumsum(T, axis=2),
    "second differences": lambda: cp.diff(x, 2),
    "differences of columns": lambda: cp.diff(X, axis=1),
    "differences of rows": lambda: cp.diff(X),
    "trace": lambda: cp.trace(S),
    "diagonal matrix": lambda: cp.diag(x),
    "diagonal of a matrix": lambda: cp.diag(S),
    "upper diagonal matrix": lambda: cp.diag(x, k=1),
    "lower diagonal of a matrix": lambda: cp.diag(S, k=-1),
    "upper triangle": lambda: cp.upper_tri(S),
    "upper triangles": lambda: cp.upper_tri(S) + cp.upper_tri(S.T),
    "vector to upper triangle": lambda: cp.vec_to_upper_tri(x),
    "vector to strict triangle": lambda: cp.vec_to_upper_tri(x, strict=True),
    "sum": lambda: cp.sum(X),
    "sum of a scalar": lambda: cp.sum(z),
    "sum of rows": lambda: cp.sum(X, axis=0),
    "sum keeping an axis": lambda: cp.sum(X, axis=1, keepdims=True),
    "sum keeping all": lambda: cp.sum(X, keepdims=True),
    "sum of two axes": lambda: cp.sum(T, axis=(0, 2)),
    "sum of the last axis": lambda: cp.sum(T, axis=-1),
    "mean": lambda: cp.mean(X),
    "mean of rows": lambda: cp.mean(X, axis=0),
    "sum of summands": lambda: sum(i * x[i] for i in range(6)),
    "promote to a matrix": lambda: z + np.ones((2, 3)),
    "promote to a variable": lambda: z + x,
    "broadcast_to": lambda: cp.broadcast_to(x, (3, 6)),
    "broadcast a constant": lambda: X + B[0],
    "broadcast a column": lambda: X[:, :1] + X,
    "broadcast a matrix": lambda: T + X,
    "broadcast one entry": lambda: one + x,
    "broadcast a 1 x 1": lambda: square + X,
    "transpose": lambda: X.T,
    "transpose of three": lambda: cp.transpose(T),
    "permute": lambda: cp.permute_dims(T, [2, 0, 1]),
    "swap axes": lambda: cp.swapaxes(T, 0, 2),
    "move an axis": lambda: cp.moveaxis(T, 0, 1),
    "squeeze": lambda: cp.squeeze(square),
    "multiply": lambda: cp.multiply(B, X),
    "multiply from the right": lambda: cp.multiply(X, B),
    "multiply broadcast data": lambda: cp.multiply(B[:1], X),
    "multiply broadcast variable": lambda: cp.multiply(X[:1], B),
    "multiply a scalar variable": lambda: cp.multiply(z, B),
    "scalar times matrix": lambda: z * B,
    "1 x 1 times matrix": lambda: square * B,
    "multiply by sparse": lambda: cp.multiply(THIN, cp.vstack([x] * 5)),
    "multiply by sparse from the right": lambda: cp.multiply(cp.vstack([x] * 5), THIN),
    "multiply by a 1 x 1 sparse": lambda: cp.multiply(sp.csr_array(np.full((1, 1), 2.0)), X),
    "times a 1 x 1 sparse": lambda: sp.csr_array(np.full((1, 1), 2.0)) * x,
    "divide": lambda: X / B,
    "divide by a scalar": lambda: x / 3,
    "divide by integers": lambda: x / np.arange(1, 7),
    "divide by a row": lambda: X / B[:1],
    "divide a scalar": lambda: z / B,
    "divide by a Parameter": lambda: x / q,
    "integer scalar": lambda: np.int64(3) * x,
    "booleans": lambda: cp.multiply(np.array([True, False] * 3), x),
    "unsigned bytes": lambda: cp.multiply(np.arange(6, dtype=np.uint8), -x + 1),
    "single precision": lambda: cp.multiply(np.arange(6, dtype=np.float32), x),
    "matrix times vector": lambda: A @ x,
    "sparse times vector": lambda: THIN @ x,
    "old sparse matrix": lambda: sp.csc_matrix(A) @ x,
    "coordinates": lambda: sp.coo_array(A) @ x,
    "column-major matrix": lambda: np.asfortranarray(A) @ x,
    "integer matrix": lambda: np.arange(30).reshape(5, 6) @ x,
    "boolean matrix times vector": lambda: (A > 0) @ x,
    "vector times matrix": lambda: x @ A.T,
    "vector times sparse": lambda: x @ THIN.T,
    "Parameter times vector": lambda: P @ x + q,
    "vector times Parameter": lambda: x @ P.T,
    "scalar Parameter": lambda: (q * X) * 2,
    "vector times vector": lambda: A[0] @ x,
    "vector times data": lambda: x @ A[0],
    "matrix times matrix": lambda: C @ X,
    "matrix times data": lambda: X @ B.T,
    "matrix times vector of data": lambda: X @ B[0],
    "vector of data times matrix": lambda: B[:, 0] @ X,
    "matrix times column": lambda: A @ cp.reshape(x, (6, 1), order="F"),
    "stacked matrices times matrix": lambda: N @ X,
    "stacked matrices times vector": lambda: N @ nonneg,
    "stacked variables times matrix": lambda: T @ B.T,
    "stacks of both": lambda: np.ones((2, 4, 2)) @ T[:, :2],
    "one entry": lambda: np.ones((3, 1)) @ one,
    "product of products": lambda: A.T @ (A @ x - 1),
    "sparse and dense": lambda: THIN.T @ (A @ x - 1) - (THIN.T @ THIN) @ x + A.T @ (THIN @ x),
    "sparse constant added": lambda: cp.vstack([x] * 5) + THIN,
    "outer": lambda: cp.outer(A[0], x),
    "outer from the right": lambda: cp.outer(x, A[0]),
    "scalar product": lambda: cp.scalar_product(A[0], x),
    "vdot": lambda: cp.vdot(B, X),
    "partial trace": lambda: untyped.partial_trace(cp.kron(np.ones((2, 2)), S), [2, 3], 0),
    "partial transpose": lambda: untyped.partial_transpose(
        cp.kron(np.array([[1.0, 2.0], [3.0, 4.0]]), S), [2, 3], 1
    ),
    "psd_wrap": lambda: cp.psd_wrap(S + S.T),
    "nonneg_wrap": lambda: wraps.nonneg_wrap(x + 1),
    "symmetric_wrap": lambda: wraps.symmetric_wrap(S + S.T),
    "skew_symmetric_wrap": lambda: wraps.skew_symmetric_wrap(S - S.T),
    "symmetric": lambda: 2 * symmetric + 1,
    "PSD": lambda: positive @ np.ones(3),
    "NSD": lambda: cp.trace(negative),
    "diag": lambda: diagonal @ np.arange(3.0) + 1,
    "diagonal of diag": lambda: cp.diag(diagonal),
    "nonneg and bounds": lambda: boxed * 3 - nonneg,
    "minus": lambda: -(x - A[0]),
    "constant plus zero": lambda: cp.Constant(B) + 0 * X,
    "conj": lambda: cp.conj(x),
    "power 1": lambda: cp.power(x, 1) + 1,
    "power 0": lambda: cp.power(x, 0) + x,
    "zero times a convex function": lambda: 0 * cp.abs(x) + x,
    "zero times a function with a domain": lambda: 0 * cp.log(x) + x,
    "zero quadratic form": lambda: cp.quad_form(x, np.zeros((6, 6))) + x[0],
    "several variables": lambda: cp.hstack([x, cp.vec(X, order="F"), z]) * 2 - 1,
}


def sample(expression: Any, variables: list[cp.Variable], rng: np.random.Generator) -> Any:
    """The value at a random point, where variables are what their attributes allow; positive."""
    for v in variables:
        v.save_value(v.project(np.abs(rng.normal(size=v.shape))))
    return np.concatenate([flat(v.value) for v in variables]), flat(expression.value)


def check(expression: Any, seed: int = 1) -> None:
    variables = expression.variables()
    assert expression.is_affine()
    matrix, offset = affine_map(expression, variables)
    assert matrix.shape == (expression.size, sum(v.size for v in variables))
    assert offset.shape == (expression.size,)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        point, value = sample(expression, variables, rng)
        np.testing.assert_allclose(matrix @ point + offset, value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ATOMS)
def test_the_map_of_an_affine_atom_is_its_value(name: str) -> None:
    check(ATOMS[name]())


UNSTACKED = ("slice of nothing", "upper triangle", "upper triangles")
"""cvxpy gives the first no value; of the others it is a column although the shape is flat."""


@pytest.mark.parametrize("name", [name for name in ATOMS if name not in UNSTACKED])
def test_the_map_of_an_atom_of_expressions_is_its_value(name: str) -> None:
    """The cached operator is applied to what is not a variable."""
    expression = ATOMS[name]()
    doubled = expression + 3 * expression - 1
    check(-doubled / 2)


def test_a_parameter_enters_with_its_current_value() -> None:
    p, w = cp.Parameter(3, value=np.ones(3)), cp.Parameter((2, 3), value=C)
    v = cp.Variable(3)
    for expression in (
        cp.multiply(p, v) + p,
        w @ v,
        cp.convolve(p, v),
        cp.outer(p, v),
        cp.hstack([v, p]),
        cp.kron(w, cp.reshape(v, (3, 1), order="F")),
    ):
        for factor in (1.0, -2.0, 0.0):
            p.value, w.value = factor * np.arange(3.0), factor * C
            check(expression)


SAME = {
    "slices": (lambda v: v[0:2], lambda v: v[1:3], lambda v: v[0:4:2], lambda v: v[::-1][0:2]),
    "lists": (lambda v: v[[0, 1]], lambda v: v[[1, 0]], lambda v: v[[0, 0]]),
    "sums": (
        lambda v: cp.sum(cp.reshape(v, (2, 3), order="F"), axis=0),
        lambda v: cp.sum(cp.reshape(v, (2, 3), order="F"), axis=1),
        lambda v: cp.sum(cp.reshape(v, (3, 2), order="F"), axis=1),
        lambda v: cp.sum(cp.reshape(v, (2, 3), order="F"), axis=1, keepdims=True),
    ),
    "orders": (
        lambda v: cp.reshape(v, (2, 3), order="F"),
        lambda v: cp.reshape(v, (2, 3), order="C"),
        lambda v: cp.reshape(v, (3, 2), order="C"),
        lambda v: cp.reshape(v, (6, 1), order="C"),
    ),
    "long boolean keys": tuple(
        lambda v, at=at: cp.hstack([v, np.zeros(3000)])[np.arange(3006) != at]
        for at in (1, 3, 1500)
    ),
    "long integer keys": tuple(
        lambda v, at=at: cp.hstack([v, np.zeros(3000)])[
            np.where(np.arange(2000) == at, 1, np.arange(2000) % 6)
        ]
        for at in (5, 999, 1001)
    ),
    "diagonals": tuple(lambda v, k=k: cp.diag(v, k=k) for k in (0, 1, -1)),
    "stacks": tuple(lambda v, k=k: cp.stack([v, 2 * v], axis=k) for k in (0, 1, -1)),
    "permutations": tuple(
        lambda v, k=k: cp.permute_dims(cp.reshape(v, (1, 2, 3), order="F"), k)
        for k in ([0, 1, 2], [1, 0, 2], [2, 1, 0])
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_operators_that_differ_only_in_their_data_are_not_confused(name: str) -> None:
    for seed in (0, 1):
        for make in SAME[name]:
            check(make(cp.Variable(6)), seed)
            check(make(2 * cp.Variable(6) - 1), seed)


def test_the_users_data_are_not_modified() -> None:
    data, thin, b = A.copy(), THIN.copy(), np.arange(5.0)
    inner = data @ x - b
    for expression in (
        -inner,
        2 * inner,
        inner + data @ x,
        inner + thin @ x,
        inner / 2,
        inner + inner,
        cp.multiply(b, inner),
        thin @ x - inner,
    ):
        check(expression)
    np.testing.assert_array_equal(data, A)
    np.testing.assert_array_equal(thin.toarray(), THIN.toarray())
    np.testing.assert_array_equal(b, np.arange(5.0))


def test_values_of_variables_are_left_alone() -> None:
    v = cp.Variable(6, value=np.arange(6.0))
    for expression in (cp.cumsum(v), cp.outer(A[0], v), v[[1, 0]]):
        affine_map(expression, [v])
        np.testing.assert_array_equal(v.value, np.arange(6.0))


STEPS: list[Callable[[Any], Any]] = [
    lambda e: -e,
    lambda e: 2 * e - 1,
    lambda e: e + e[::-1],
    lambda e: e[::-1],
    lambda e: cp.cumsum(e),
    lambda e: e / np.arange(1.0, 7.0),
    lambda e: cp.multiply(np.array([0.0, 1, -1, 2, 0, 1]), e),
    lambda e: np.roll(np.eye(6), 1, axis=0) @ e,
    lambda e: sp.csr_array(np.tril(np.ones((6, 6)))) @ e + 1,
    lambda e: e @ np.triu(np.ones((6, 6))),
    lambda e: e[[5, 0, 0, 1, 2, 3]],
    lambda e: cp.hstack([e[:2], e[2:] * 3]),
    lambda e: cp.vec(cp.reshape(e, (2, 3), order="C").T, order="F"),
    lambda e: cp.sum(e) + e,
    lambda e: cp.diag(cp.diag(e)),
    lambda e: x - e,
    lambda e: e + cp.sum(X[0]),
    lambda e: cp.convolve(np.ones(3), e)[1:7],
    lambda e: cp.vec_to_upper_tri(e, strict=True)[[0, 0, 0, 1, 1, 2], [1, 2, 3, 2, 3, 3]],
    lambda e: q * e,
    lambda e: A.T @ (P @ e),
]


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=7))
def test_the_map_of_any_mixture_is_its_value(steps: list[Callable[[Any], Any]]) -> None:
    expression: Any = cp.Variable(6)
    for step in steps:
        expression = step(expression)
    variables = expression.variables()
    matrix, offset = affine_map(expression, variables)
    rng = np.random.default_rng(2)
    point, value = sample(expression, variables, rng)
    size = abs(matrix) @ np.abs(point) + np.abs(offset) + np.abs(value)
    # Rounding: a few hundred operations, each of 2^-53 of what is summed at most
    assert (np.abs(matrix @ point + offset - value) <= 1e-11 * (1 + size.max())).all()


@pytest.mark.parametrize("name", ["added", "negated", "promoted", "multiplied", "data", "both"])
def test_an_expression_of_moving_parameters_is_what_it_is_anew(name: str) -> None:
    """Where Parameters are added the offset alone is made anew; of a product everything is."""
    rng, x, y = np.random.default_rng(0), cp.Variable(3), cp.Variable(3)
    p, q, A = cp.Parameter(3), cp.Parameter(), cp.Parameter((3, 3))
    data = rng.normal(size=(3, 3))
    expression: cp.Expression = {
        "added": data @ x + 2 * p + 1.5,
        "negated": -(p - (x - y) - rng.normal(size=3)),
        "promoted": x - q,
        "multiplied": cp.multiply(p, x) + p,
        "data": A @ x + p,
        "both": -(data @ p - x) + q,
    }[name]
    for one in (p, q, A):
        one.value = 1e8 * rng.normal(size=one.shape)
    moving, found = Moving(expression), affine_parts(expression)
    for _ in range(3):
        for one in (p, q, A):
            one.value = rng.normal(size=one.shape)
        found, anew = moving.again(found), affine_parts(expression)
        assert found[0].keys() == anew[0].keys()
        for key, matrix in anew[0].items():
            same = [sp.csr_array(explicit(one, 3)).toarray() for one in (found[0][key], matrix)]
            np.testing.assert_array_equal(*same)
        np.testing.assert_allclose(found[1], anew[1], rtol=1e-15, atol=1e-15)
