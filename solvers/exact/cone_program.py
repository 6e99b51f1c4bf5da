"""The cone program of a form's rows and of its terms without a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dald_model.compile.form import ConeProgram, Form


def cone_program(form: Form) -> ConeProgram:
    """The rows and then the terms over (x, the extra variables, one for every summand's value)."""
    terms = [term for term in form.terms if not term.is_smooth]
    if not terms and not form.extra:
        return _of_rows(form)
    at = form.size + form.extra
    columns = at + sum(term.weight.size for term in terms if not term.is_set)
    matrix: Any = sp.csr_array(np.vstack([form.equalities.matrix, form.inequalities.matrix]))
    matrix.resize((matrix.shape[0], columns))
    rows, linear = [matrix], [np.zeros(at)]
    rhs = [form.equalities.rhs, form.inequalities.rhs]
    cones: list[tuple[str, Any]] = [
        (kind, height)
        for kind, height in (
            ("ZeroConeT", form.equalities.rhs.size),
            ("NonnegativeConeT", form.inequalities.rhs.size),
        )
        if height
    ]
    for term in terms:
        count = term.weight.size
        matrix = sp.csr_array(term.matrix)
        matrix.resize((matrix.shape[0], columns))
        top: Any = sp.csr_array((count, columns))
        if not term.is_set:
            top = sp.eye_array(count, columns, k=at, format="csr")
            linear.append(term.weight)
            at += count
        found = term.kind.epigraph(matrix, term.offset, term.parameter, top)
        rows.append(found.rows)
        rhs.append(found.rhs)
        cones += found.cones
    return ConeProgram(
        sp.csc_array((columns, columns)),
        np.concatenate(linear),
        0.0,
        sp.csc_array(sp.vstack(rows)),
        np.concatenate(rhs),
        tuple(cones),
    )


def _of_rows(form: Form) -> ConeProgram:
    """The same of a client that has rows alone."""
    parts = (("ZeroConeT", form.equalities), ("NonnegativeConeT", form.inequalities))
    return ConeProgram(
        sp.csc_array((form.size, form.size)),
        np.zeros(form.size),
        0.0,
        sp.csc_array(np.vstack([part.matrix for _, part in parts])),
        np.concatenate([part.rhs for _, part in parts]),
        tuple((kind, part.rhs.size) for kind, part in parts if part.rhs.size),
    )
