"""Convexity: the innermost part that breaks cvxpy's DCP rules, and matrices asserted semidefinite.

cvxpy takes ``cp.psd_wrap(P)`` and ``cp.quad_form(x, P, assume_PSD=True)`` at their word. With a
negative eigenvalue the objective is not convex, and no answer, price or certificate means anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dald_model._cvxpy import NegExpression, quad_forms
from dald_model.declare.wording import STRETCHED, short
from dald_model.eigen import eigvalsh
from dald_model.errors import DeclarationError, users_line
from dald_model.sizes import SAME

OTHER = {"convex": "concave", "concave": "convex", "affine": "affine"}


def why_not(expression: cp.Expression, wanted: str) -> str:
    """Which parts keep an expression from being convex, concave or affine; "" where none is told.

    Examples
    --------
    >>> x = cp.Variable(3, name="x")
    >>> print(why_not(cp.sum_squares(x) + cp.sum(cp.sqrt(x)), "convex"))
    in it, sum(power(x, 0.5)) is concave
    >>> print(why_not(cp.sum(cp.log(1 + cp.exp(x))), "convex"))
    in it, log(1.0 + exp(x)) breaks the rules, since log is concave and its argument ...
    """
    found = [_said(part, part is expression) for part in _breaches(expression, wanted)]
    return "; ".join(dict.fromkeys(said for said in found if said))


def warn_of_outer(part: Any, where: str) -> None:
    """Warn of a column and a vector of one length in a sum, which numpy's rules make a matrix."""
    stack = [part]
    while stack:
        node = stack.pop()
        stack.extend(node.args)
        if not isinstance(node, cp.AddExpression) or node.ndim != 2:
            continue
        inner = [arg.args[0] for arg in node.args if type(arg).__name__ == "broadcast_to"]
        count = node.shape[0]
        if count > 1 and {one.shape for one in inner} == {(count,), (count, 1)}:
            said = " and ".join(f"{short(one, 30)} of shape {one.shape}" for one in inner)
            warnings.warn(
                f"{where}: {said} add up to a matrix of shape {node.shape} by numpy's rules; if "
                "entry by entry is meant, have both of one shape, as by cp.vec(..., order='F')",
                UserWarning,
                stacklevel=users_line(),
            )


def _is(expression: Any, wanted: str) -> bool:
    return bool(getattr(expression, f"is_{wanted}")())


def _breaches(part: Any, wanted: str) -> Iterator[Any]:
    if _is(part, wanted):
        return
    inner = [arg for arg in part.args if not arg.is_dcp()]
    if inner:
        for arg in inner:
            yield from _breaches(arg, "convex")
    elif isinstance(part, cp.AddExpression):
        for arg in part.args:
            yield from _breaches(arg, wanted)
    elif isinstance(part, NegExpression):
        yield from _breaches(part.args[0], OTHER[wanted])
    elif type(part).__name__ in STRETCHED:
        yield from _breaches(part.args[0], wanted)
    else:
        yield part


def _said(part: Any, is_whole: bool) -> str:
    """What one part does wrong."""
    if part.is_dcp():
        return "" if is_whole else f"in it, {short(part)} is {part.curvature.lower()}"
    where = f"in it, {short(part)} breaks the rules, since"
    if isinstance(part, (cp.MulExpression, cp.multiply)):
        if not any(arg.is_constant() for arg in part.args):
            return f"{where} it multiplies two expressions of variables"
        unsigned = [p.name() for p in part.parameters() if not (p.is_nonneg() or p.is_nonpos())]
        if unsigned:
            return (
                f"{where} the sign of the Parameter {unsigned[0]!r} is unknown: declare it as "
                "cp.Parameter(nonneg=True)"
            )
    shapes = [kind for kind in ("convex", "concave") if getattr(part, f"is_atom_{kind}")()]
    args = [arg for arg in part.args if not arg.is_affine()]
    if len(shapes) == 1 and len(args) == 1:
        name = short(part).partition("(")[0]
        return (
            f"{where} {name} is {shapes[0]} and its argument {short(args[0])} is "
            f"{args[0].curvature.lower()}"
        )
    return f"{where.removesuffix(', since')}"


CHECKED = 0.1
"""cvxpy has checked a plain constant matrix to 1e-10; where the largest entry, and so the largest
eigenvalue, is at least this, its check is the finer one."""
LARGE = 500
"""Size from which on a Cholesky factorisation is tried first: 500 eigenvalues take 20 ms, 3,000
take 20 times as long as the factorisation."""


def check_asserted(part: Any, where: str) -> None:
    """Refuse quadratic forms of an objective or constraint whose matrix is not semidefinite.

    Singular matrices pass, and so do negative eigenvalues that rounding explains.

    Raises
    ------
    DeclarationError
        Naming the client or coupling, the form and the eigenvalue.
    """
    for form in quad_forms(part):
        matrix = form.args[1]
        value: Any = matrix.value
        if isinstance(matrix, cp.Constant) and abs(value).max() >= CHECKED:
            continue
        is_psd = matrix.is_psd()
        ends = _ends(value if is_psd else -value)
        if ends is None or ends[0] >= -SAME * max(map(abs, ends)):
            continue
        least, most = ends if is_psd else (-ends[0], -ends[1])
        kind, sign, which, bound = ("convex", "positive", "least", "maximum")
        if not is_psd:
            kind, sign, which, bound = ("concave", "negative", "largest", "minimum")
        raise DeclarationError(
            f"{where}: {short(form)} is not {kind}: its {which} eigenvalue is {least:.3g} (at the "
            f"other end {most:.3g}), expected a {sign} semidefinite matrix; check its entries and "
            "sign, or give the nearest such matrix: values, vectors = np.linalg.eigh(P); "
            f"P = (vectors * np.{bound}(values, 0)) @ vectors.T"
        )


def _ends(given: Any) -> tuple[float, float] | None:
    """Least and largest eigenvalue of the symmetric part; None if it is known to be semidefinite.

    The rest of the package takes the matrix dense as well, so large sparse ones come to nothing
    that a sparse factorisation would save.
    """
    matrix = (given + given.T) / 2
    diagonal = matrix.diagonal()
    # Gershgorin: as of diagonal matrices and Laplacians
    if (2 * diagonal >= np.asarray(abs(matrix).sum(axis=1)).reshape(-1)).all():
        return None
    dense = np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=float)
    if len(dense) > LARGE:
        # The largest entry is at most the largest eigenvalue, so the shift is no more than allowed
        shift = SAME * float(np.abs(dense).max())
        try:
            scipy.linalg.cholesky(dense + shift * np.eye(len(dense)), overwrite_a=True)
        except np.linalg.LinAlgError:
            pass
        else:
            return None
    values = eigvalsh(dense)
    return float(values[0]), float(values[-1])
