r"""Every convex and every concave atom of cvxpy as a term of a client's objective, or why not.

A template is a convex scalar expression. Its placeholders are affine in the client's variable:

====== ============================================================================
{v}    a vector, of any sign
{p}    a vector that is positive where the model is known to be feasible
{one}  one entry, positive there
{S}    a symmetric matrix
{D}    a symmetric matrix that is positive definite there
{M}    any matrix
====== ============================================================================

and the others are data: {n} the length of {v}, {w} weights of its length, all positive, {Q} a
positive definite matrix of that size, {C} one of the size of {D}, {a} a positive number, {t} and
{u} variables of the term's own, {t} between 0.5 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Atom:
    """A template, how often it is drawn, and whether it says itself where it is defined."""

    code: str
    weight: float = 1.0
    barrier: bool = False

    def needs(self, what: str) -> bool:
        """Whether the placeholder stands in the template."""
        return f"{{{what}}}" in self.code


VECTOR = [
    Atom("cp.sum_squares({v})", 3),
    Atom("cp.sum(cp.square({v}))"),
    Atom("cp.quad_form({v}, {Q})", 2),
    Atom("cp.quad_form({v}, cp.psd_wrap({Q}))", 0.5),
    Atom("cp.matrix_frac({v}, {Q})", 0.5),
    Atom("cp.norm1({v})", 2),
    Atom("cp.norm({v}, 2)", 2),
    Atom("cp.norm2({v})", 0.5),
    Atom("cp.norm_inf({v})"),
    Atom("cp.max(cp.cumsum({v}))", 0.3),
    Atom("cp.pnorm({v}, 3)", 0.5),
    Atom("cp.pnorm({v}, 1.5)", 0.5),
    Atom("cp.pnorm({v}, 3, approx=False)", 0.5),
    Atom("cp.sum(cp.abs({v}))"),
    Atom("cp.sum(cp.huber({v}, {a}))", 2),
    Atom("cp.sum(cp.exp(0.5 * {v}))"),
    Atom("cp.sum(cp.logistic({v}))", 2),
    Atom("cp.log_sum_exp({v})"),
    Atom("cp.max({v})"),
    Atom("-cp.min({v})"),
    Atom("cp.sum(cp.maximum({v}, {w}))"),
    Atom("-cp.sum(cp.minimum({v}, {w}))"),
    Atom("cp.sum_largest({v}, 1)", 0.5),
    Atom("-cp.sum_smallest({v}, 1)", 0.5),
    Atom("cp.cvar({v}, 0.6)", 0.5),
    Atom("cp.sum(cp.pos({v}))"),
    Atom("cp.sum(cp.neg({v}))"),
    Atom("cp.sum(cp.scalene({v}, {a}, 0.4))"),
    Atom("cp.sum_squares(cp.pos({v}))"),
    Atom("cp.sum(cp.power({v}, 4))", 0.5),
    Atom("cp.sum(cp.power({v}, 4, approx=False))", 0.5),
    Atom("cp.sum(cp.xexp(cp.pos({v})))", 0.3),
    Atom("cp.quad_over_lin({v}, {one})", 0.5),
    Atom("cp.tv({v})", 0.5),
    Atom("cp.ptp({v})", 0.5),
    Atom("cp.std({v})", 0.5),
    Atom("cp.var({v})", 0.5),
    Atom("cp.sum(cp.cummax({v}))", 0.5),
    Atom("cp.dotsort({v}, {w})", 0.5),
    Atom("cp.mixed_norm(cp.vstack([{v}, {w} - {v}]), 2, 1)", 0.5),
    Atom("cp.perspective(cp.square({u}), {t}) + cp.sum_squares({v} - {u})", 0.2),
    Atom("(lambda h: cp.suppfunc(h, [cp.norm(h, 2) <= 1]))(cp.Variable({n}))({v})", 0.3),
    Atom("cp.transforms.indicator([{v} <= 20.0])", 0.3),
    Atom("-cp.sum(cp.log_normcdf({v}))", 0.3),
    Atom("cp.sum({v})", 0.5),
    Atom("{w} @ {v}", 0.5),
]
POSITIVE = [
    Atom("-cp.sum(cp.log({p}))", 2, barrier=True),
    Atom("-cp.sum(cp.log1p({p}))"),
    Atom("-cp.sum(cp.entr({p}))", barrier=True),
    Atom("cp.sum(cp.kl_div({p}, {one}))", 0.5),
    Atom("cp.sum(cp.rel_entr({p}, {one}))", 0.5),
    Atom("cp.sum(cp.inv_pos({p}))", barrier=True),
    Atom("cp.sum(cp.power({p}, 1.5))", 0.5),
    Atom("cp.sum(cp.power({p}, 3))", 0.5),
    Atom("cp.sum(cp.power({p}, -0.5))", 0.5, barrier=True),
    Atom("-cp.sum(cp.power({p}, 0.3, approx=False))", 0.5),
    Atom("-cp.sum(cp.sqrt({p}))"),
    Atom("-cp.geo_mean({p})", 0.5),
    Atom("-cp.geo_mean({p}, approx=False)", 0.3),
    Atom("-cp.harmonic_mean({p})", 0.5),
    Atom("-cp.pnorm({p}, 0.5)", 0.3),
    Atom("cp.inv_prod({p})", 0.3),
    Atom("cp.sum(cp.loggamma({p}))", 0.3),
]
MATRIX = [
    Atom("cp.lambda_max({S})", 2),
    Atom("-cp.lambda_min({S})"),
    Atom("cp.lambda_sum_largest({S}, 1)"),
    Atom("-cp.lambda_sum_smallest({S}, 1)"),
    Atom("cp.sigma_max({M})"),
    Atom("cp.norm({M}, 2)"),
    Atom("cp.norm({M}, 'fro')"),
    Atom("cp.normNuc({M})", 2),
    Atom("cp.mixed_norm({M}, 2, 1)"),
    Atom("-cp.log_det({D})", 2, barrier=True),
    Atom("cp.tr_inv({D})", barrier=True),
    Atom("cp.matrix_frac(np.ones({D}.shape[0]), {D})", barrier=True),
    Atom("-cp.von_neumann_entr({D})", 0.3),
    Atom("cp.quantum_rel_entr({D}, {C})", 0.1),
]
CATALOGUE = VECTOR + POSITIVE + MATRIX

ARGUMENTS = [
    ("{b}", 3.0),
    ("{A} @ {b} + {c}", 3.0),
    ("2.0 * {b} - 1.0", 1.0),
    ("cp.hstack([{b}, 1.0 - {b}])", 0.5),
    (
        "cp.vec(cp.kron(np.array([[1.0, -0.5]]), cp.reshape({b}, (-1, 1), order='F')), order='F')",
        0.3,
    ),
    ("cp.convolve(np.array([1.0, -0.5]), {b})", 0.3),
    ("cp.multiply({d}, {b})", 0.5),
    ("{b}[::-1] / 2.0", 0.3),
    ("cp.reshape(cp.vstack([{b}, {b} - 1.0]), (-1,), order='C')", 0.3),
]
"""Vectors that are affine in {b}, the entries of the client's variable; {A}, {c}, {d} are data."""

QUASI = "quasiconvex or log-log convex only: refused by cvxpy's DCP rules, so by the declaration"
SMOOTH = "an atom of cvxpy's nonlinear programming, which DCP problems cannot hold"
DISCRETE = "of Boolean expressions"
BASE = "a base class, of which there are no expressions"
EXCLUDED: dict[str, str] = {
    **dict.fromkeys(
        [
            "ceil",
            "condition_number",
            "dist_ratio",
            "floor",
            "gen_lambda_max",
            "length",
            "sign",
            "Prod",
            "eye_minus_inv",
            "gmatmul",
            "one_minus_pos",
            "pf_eigenvalue",
        ],
        QUASI,
    ),
    **dict.fromkeys(
        ["asinh", "atanh", "sinh", "tanh", "normcdf", "cos", "sin", "tan"],
        SMOOTH,
    ),
    **dict.fromkeys(
        ["And", "LogicExpression", "Not", "Or", "Xor", "_NaryLogicExpression"], DISCRETE
    ),
    **dict.fromkeys(["AxisAtom", "Elementwise"], BASE),
    "SymbolicQuadForm": "made by cvxpy's compiler, in place of a quadratic",
}
"""Class of a nonlinear atom that no model is drawn with -> why."""

EXCLUDED_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(["diff_pos", "prod", "resolvent"], QUASI),
    "quantum_cond_entr": "two von Neumann entropies of 4 x 4 matrices: minutes a model",
}
"""Function of cvxpy's that makes nonlinear atoms of its arguments -> why it is left out."""

AFFINE_FUNCTIONS = (
    "bmat",
    "concatenate",
    "deep_flatten",
    "diag",
    "diff",
    "einsum",
    "hstack",
    "matmul",
    "mean",
    "moveaxis",
    "outer",
    "partial_trace",
    "partial_transpose",
    "permute_dims",
    "promote",
    "scalar_product",
    "squeeze",
    "stack",
    "sum",
    "swapaxes",
    "trace",
    "vdot",
    "vec",
    "vec_to_upper_tri",
    "vstack",
)
"""Functions of cvxpy's that are affine in a variable."""
