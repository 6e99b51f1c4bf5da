"""The cone program of a form's rows and of its terms without a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form


def cone_program(form: Form) -> ConeProgram:
    """The rows and terms over (x, the extra variables, one for every absolute value and norm)."""
    values = [term for term in form.terms if term.kind == "abs"]
    others = [term for term in form.terms if not (term.is_smooth or term.kind == "abs")]
    tops = sum(term.weight.size for term in values + others if not term.is_set)
    columns = form.size + form.extra + tops
    at = form.size + form.extra
    linear: Any = sp.csr_array(np.vstack([form.equalities.matrix, form.inequalities.matrix]))
    linear.resize((linear.shape[0], columns))
    equal, below = form.equalities.right.size, form.inequalities.right.size
    rows, slope = [linear], [np.zeros(at)]
    right = [form.equalities.right, form.inequalities.right]
    cones: list[tuple[str, Any]] = []
    for term in values:
        height = term.weight.size
        top = sp.eye_array(height, columns, k=at)
        matrix: Any = sp.csr_array(term.matrix)
        matrix.resize((height, columns))
        rows += [matrix - top, -matrix - top]
        right += [-term.offset, term.offset]
        below += 2 * height
        slope.append(term.weight)
        at += height
    for term in others:
        height, wide = term.weight.size, term.width + 1
        matrix: Any = sp.csr_array(term.matrix)
        matrix.resize((height * term.width, columns))
        firsts = np.arange(height) * wide
        inner = np.setdiff1d(np.arange(height * wide), firsts)
        spread = sp.csr_array(
            (np.ones(inner.size), (inner, np.arange(inner.size))), (height * wide, inner.size)
        )
        levels = np.zeros(height * wide)
        levels[inner] = term.offset
        block = -(spread @ matrix)
        if term.is_set:
            levels[firsts] = term.bound
        else:
            place = (firsts, at + np.arange(height))
            block = block - sp.csr_array((np.ones(height), place), (height * wide, columns))
            slope.append(term.weight)
            at += height
        rows.append(block)
        right.append(levels)
        cones += [("SecondOrderConeT", wide)] * height
    kinds = ("ZeroConeT", equal), ("NonnegativeConeT", below)
    return ConeProgram(
        sp.csc_array((columns, columns)),
        np.concatenate(slope),
        0.0,
        sp.csc_array(sp.vstack(rows)),
        np.concatenate(right),
        (*(one for one in kinds if one[1]), *cones),
    )
