r"""Constraints of every cone of cvxpy, drawn so that a given point satisfies them with room.

A template's placeholders are those of :mod:`tests.fuzz.atoms`; {r} is a number that is chosen once
what it bounds is known at the point: ``above`` that, with room, ``below`` it, or ``equal`` to it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A template, the expression that {r} bounds, how, and how often it is drawn."""

    code: str
    measured: str
    bound: str
    weight: float = 1.0


VECTOR = [
    Rule("{v} <= {r}", "cp.max({v})", "above", 2),
    Rule("{v} >= {r}", "cp.min({v})", "below", 2),
    Rule("cp.NonNeg({v} - {r})", "cp.min({v})", "below", 0.5),
    Rule("cp.NonNeg({r} - {v})", "cp.max({v})", "above", 0.5),
    Rule("{w} @ {v} == {r}", "{w} @ {v}", "equal", 2),
    Rule("cp.Zero(cp.sum({v}) - {r})", "cp.sum({v})", "equal", 0.5),
    Rule("cp.norm({v}, 2) <= {r}", "cp.norm({v}, 2)", "above", 1),
    Rule("cp.SOC(cp.Constant({r}), {v})", "cp.norm({v}, 2)", "above", 1),
    Rule("cp.norm1({v}) <= {r}", "cp.norm1({v})", "above", 1),
    Rule("cp.norm_inf({v}) <= {r}", "cp.norm_inf({v})", "above", 1),
    Rule("cp.sum_squares({v}) <= {r}", "cp.sum_squares({v})", "above", 1),
    Rule("cp.quad_form({v}, {Q}) <= {r}", "cp.quad_form({v}, {Q})", "above", 0.5),
    Rule("cp.log_sum_exp({v}) <= {r}", "cp.log_sum_exp({v})", "above", 0.5),
    Rule("cp.sum(cp.logistic({v})) <= {r}", "cp.sum(cp.logistic({v}))", "above", 0.5),
    Rule("cp.sum(cp.huber({v})) <= {r}", "cp.sum(cp.huber({v}))", "above", 0.5),
    Rule(
        "cp.ExpCone({v}, cp.Constant(np.ones({n})), cp.Constant({r} * np.ones({n})))",
        "cp.exp(cp.max({v}))",
        "above",
        0.5,
    ),
    Rule(
        "{r} * np.eye(2) + {one} * np.array([[0.0, 1.0], [1.0, 0.0]]) >> 0",
        "cp.abs({one})",
        "above",
        0.5,
    ),
    Rule(
        "cp.RelEntrConeQuad(cp.hstack([{one}]), cp.Constant(np.ones(1)), "
        "cp.Constant({r} * np.ones(1)), 3, 3)",
        "-cp.entr({one})",
        "above",
        0.2,
    ),
    Rule(
        "cp.PowCone3D(cp.hstack([{one}]), cp.Constant({r} * np.ones(1)), cp.hstack([{one}]), 0.4)",
        "cp.abs({one})",
        "above",
        0.3,
    ),
    Rule(
        "cp.PowConeND(cp.vstack([cp.hstack([{one}]), cp.Constant({r} * np.ones(1)), "
        "cp.Constant(np.ones(1))]), cp.hstack([{one}]) - 1.0, np.array([[0.4], [0.3], [0.3]]))",
        "10.0 * cp.abs({one})",
        "above",
        0.3,
    ),
]
POSITIVE = [
    Rule("cp.sum({p}) == {r}", "cp.sum({p})", "equal", 1),
    Rule("cp.sum(cp.log({p})) >= {r}", "cp.sum(cp.log({p}))", "below", 0.5),
    Rule("cp.geo_mean({p}) >= {r}", "cp.geo_mean({p})", "below", 0.5),
    Rule("-cp.sum(cp.entr({p})) <= {r}", "-cp.sum(cp.entr({p}))", "above", 0.3),
]
MATRIX = [
    Rule("{D} >> 0.02 * np.eye({D}.shape[0])", "cp.trace({D})", "equal", 2),
    Rule("{S} << {r} * np.eye({S}.shape[0])", "cp.lambda_max({S})", "above", 2),
    Rule("cp.PSD({D})", "cp.trace({D})", "equal", 1),
    Rule("cp.trace({D}) == {r}", "cp.trace({D})", "equal", 1),
    Rule("cp.normNuc({M}) <= {r}", "cp.normNuc({M})", "above", 1),
    Rule("cp.sigma_max({M}) <= {r}", "cp.sigma_max({M})", "above", 1),
    Rule("cp.log_det({D}) >= {r}", "cp.log_det({D})", "below", 0.5),
]
CATALOGUE = VECTOR + POSITIVE + MATRIX

EXCLUDED: dict[str, str] = {
    "Constraint": "a base class",
    "Cone": "a base class",
    "FiniteSet": "discrete: refused by the declaration",
    "OpRelEntrConeQuad": "semidefinite cones by the dozen for a 2 x 2 matrix; "
    "von_neumann_entr and quantum_rel_entr stand for it",
    "PowCone3DApprox": "second-order cones that cvxpy makes of PowCone3D",
    "NonPos": "NonNeg of the negative; cvxpy warns of its dual's sign",
}
"""Class of a constraint that cvxpy exports and no model is drawn with -> why."""
