"""Bytes from anywhere: ``unpack`` gives a client whose numbers hold together, or refuses."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dald_model as dm
from dald_model.solvers import NAMED, Turn
from tests.engines import tampered

HEADER = 2**22
"""The most bytes of a header, 4 MiB."""
NO_CLIENT = "unpack: the bytes are no packed client; expected those of pack"
ROWS, TERMS, COLUMNS, CONES = range(4)


def check(data: bytes) -> bool:
    """Whether a client came out; if so, scipy's own full check and the shapes are the judges."""
    try:
        found = dm.unpack(data)
    except dm.OptionError as error:
        assert str(error).startswith("unpack: the ")  # noqa: PT017 - most inputs raise nothing else
        return False
    form, (matrix, offset) = found.form, found.sides
    for part in (form.cone.matrix, form.cone.rows, matrix):
        part.check_format(full_check=True)
        assert np.isfinite(part.data).all()
    assert matrix.shape == (offset.size, form.size)
    assert set(found.signs) <= {1.0, -1.0}
    assert form.cone.matrix.shape == 2 * form.cone.linear.shape
    assert form.cone.rows.shape == (form.cone.rhs.size, form.cone.linear.size)
    point = np.linspace(-1, 1, form.size)
    with np.errstate(over="ignore", invalid="ignore"):
        if form.valued:
            assert isinstance(form.objective(point), float)
        if form.complete and not form.extra:
            assert isinstance(form.violation(point), float)
        assert form.cone.rows.shape[0] == (form.cone.rows @ np.ones(form.cone.linear.size)).size
    return True


def fuzzed(examples: int) -> settings:
    calm = [HealthCheck.too_slow]
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=calm,
        database=None,
        derandomize=True,  # the same inputs every time
    )


@fuzzed(200)
@given(st.one_of(tampered.flipped(), tampered.directories(), tampered.rezipped()))
def test_other_bytes_are_a_client_or_refused(data: bytes) -> None:
    check(data)


@fuzzed(150)
@given(tampered.altered())
def test_other_arrays_are_a_client_or_refused(data: bytes) -> None:
    check(data)


@fuzzed(100)
@given(tampered.relabelled())
def test_another_header_is_a_client_or_refused(data: bytes) -> None:
    check(data)


@fuzzed(60)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes) -> None:
    assert not check(data)


# --- an honest client arrives bit for bit ---------------------------------------------------------


# --- what was done by hand ------------------------------------------------------------------------


def by_hand() -> dict[str, bytes]:
    """Name -> bytes; each is refused."""
    whole = tampered.packed()
    rows, cones, terms = (tampered.entries(whole[at]) for at in (ROWS, CONES, TERMS))
    header = tampered.header_of(rows)
    many = tampered.header_of(cones)
    flipped = bytearray(whole[ROWS])
    flipped[flipped.index(b"PK\1\2") + 10] = 99
    locked = bytearray(whole[ROWS])
    locked[locked.index(b"PK\1\2") + 8] |= 1
    bomb = tampered.head((3 * 10**7,), "|u1") + bytes(3 * 10**7)
    ones = np.ones((3, 3))

    def arrays(given: Mapping[str, Any] | None = None, /, **changed: Any) -> bytes:
        return tampered.stored(dict(rows if given is None else given) | changed)

    def header_with(of: Mapping[str, np.ndarray] = rows, **changed: Any) -> bytes:
        found = tampered.header_of(of) | changed
        return tampered.stored(tampered.with_header(of, found))

    def text(words: str) -> bytes:
        return tampered.stored(tampered.with_header(rows, words))

    def cone(at: int, value: Any) -> bytes:
        changed = [list(pair) for pair in many["cones"]]
        changed[at][1] = value
        return header_with(cones, cones=changed)

    def entry(name: str) -> np.ndarray:
        return rows[name].copy()

    kinds = [kind for kind, _ in many["cones"]]
    power, powers = kinds.index("PowerConeT"), kinds.index("GenPowerConeT")
    twice = entry("cone.rows.indices")
    twice[:] = twice[0]
    falling = rows["cone.rows.indptr"][::-1].copy()
    late = entry("cone.rows.indptr") + 1
    single, pickled = io.BytesIO(), io.BytesIO()
    np.save(single, np.arange(3))
    np.savez(pickled, header=np.array([{}], dtype=object))
    return {
        "nothing": b"",
        "words": b"hello, this is no client",
        "the start": whole[ROWS][: len(whole[ROWS]) // 2],
        "all but the end": whole[ROWS][:-10],
        "one array": single.getvalue(),
        "pickles": pickled.getvalue(),
        "other arrays": arrays({"a": np.arange(3)}),
        "a header that is no JSON": text("no JSON"),
        "a header that is a list": text("[1, 2]"),
        "a header without version": text(
            json.dumps({key: value for key, value in header.items() if key != "version"})
        ),
        "an array too few": arrays({key: one for key, one in rows.items() if key != "slope"}),
        "another compression": bytes(flipped),
        "an encrypted entry": bytes(locked),
        "a deep header": text("[" * 10**5),
        "a deep header within the fields": text(
            json.dumps(header)[:-1] + ', "more": ' + "[" * 9**5 + "]" * 9**5 + "}"
        ),
        "a long header": text(json.dumps(header | {"name": "a" * (HEADER + 1)})),
        "an integer without end": text(json.dumps(header).replace("3", "9" * 5000, 1)),
        "NaN in the header": header_with(constants=[float("nan"), 0.0]),
        "too large in the header": text(
            json.dumps(header | {"constants": [0, 0]}).replace("[0,", "[1e999,")
        ),
        "a tebibyte": tampered.with_entry(whole[ROWS], "x.npy", tampered.head((10**12,))),
        "a tebibyte instead": tampered.with_entry(
            arrays({k: v for k, v in rows.items() if k != "slope"}),
            "slope.npy",
            tampered.head((10**12,)),
            zipfile.ZIP_STORED,
        ),
        "axes below zero": tampered.with_entry(
            arrays({k: v for k, v in rows.items() if k != "slope"}),
            "slope.npy",
            tampered.head((3,)).replace(b"(3,)", b"(-1)") + bytes(24),
            zipfile.ZIP_STORED,
        ),
        "a bomb": tampered.with_entry(whole[ROWS], "y.npy", bomb),
        "columns that nobody has": header_with(extra=10**12),
        "columns that nobody has, twice": tampered.stored(
            dict(tampered.with_header(rows, header | {"extra": 10**12}))
            | {"equalities.rhs": np.zeros(0), "inequalities.rhs": np.zeros(0)}
        ),
        "an unknown cone": header_with(cones=[["zz", 3]]),
        "cones that are no pairs": header_with(cones=[3]),
        "too few rows in the cones": header_with(cones=header["cones"][:-1]),
        "an exponent of 1": cone(power, 1.0),
        "an exponent that is no number": cone(power, True),
        "exponents that add up to 2": cone(powers, [0.5, 0.5, 1.0]),
        "exponents below zero": cone(powers, [0.5, -0.5, 1.0]),
        "no exponents": cone(powers, []),
        "a size of zero": cone(kinds.index("PSDTriangleConeT"), 0),
        "an argument too many": cone(kinds.index("ExponentialConeT"), 3),
        "NaN": arrays(slope=np.full(3, np.nan)),
        "infinite": arrays(offset=np.full(3, np.inf)),
        "another size": arrays(slope=np.zeros(2)),
        "text": arrays(slope=np.array(["a"] * 3)),
        "single precision": arrays(slope=np.zeros(3, np.float32)),
        "complex": arrays(slope=np.zeros(3, complex)),
        "asymmetric": arrays(quadratic=np.triu(ones)),
        "both P and its root": arrays(root=ones),
        "signs": arrays(signs=np.array([1.0, 1.0, 2.0])),
        "indices beyond": arrays({**rows, "cone.rows.indices": entry("cone.rows.indices") + 10**9}),
        "indices below": arrays({**rows, "cone.rows.indices": entry("cone.rows.indices") - 1}),
        "sides beyond": arrays({**rows, "sides.indices": entry("sides.indices") + 10**6}),
        "an entry twice": arrays({**rows, "cone.rows.indices": twice}),
        "pointers that fall": arrays({**rows, "cone.rows.indptr": falling}),
        "pointers that begin late": arrays({**rows, "cone.rows.indptr": late}),
        "a shape without rows": arrays({**rows, "sides.shape": np.array([10**15, 3])}),
        "an unknown kind": header_with(terms, terms=[["zz", 1]] * 3),
        "a kind that is no term": header_with(terms, terms=[["linear", 1]] * 3),
        "a width of zero": header_with(terms, terms=[["norm", 0]] * 3),
        "a negative weight": arrays({**terms, "term0.weight": -terms["term0.weight"]}),
        "True for a size": header_with(size=True),
        "a size that is no whole number": header_with(size=3.0),
        "a name that is no text": header_with(name=["a"]),
        "a flag that is a number": header_with(complete=1),
        "complete without values": header_with(valued=False),
        "a field too many": header_with(more=1),
        "an array too many": arrays(more=np.zeros(1)),
        "True for a version": header_with(version=True),
        "a version without end": header_with(version=10**4000),
    }


BY_HAND = by_hand()


@pytest.mark.parametrize("name", BY_HAND)
def test_it_is_refused_and_takes_little_memory(name: str) -> None:
    data = BY_HAND[name]
    tracemalloc.start()
    try:
        with pytest.raises(dm.OptionError) as caught:
            dm.unpack(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value) == NO_CLIENT
    # What came, in a few copies, and what reading the directory and the header takes
    assert peak < 10 * len(data) + 2**20


def test_a_header_as_long_as_may_be_takes_no_more_than_is_stated() -> None:
    arrays = tampered.entries(tampered.packed()[ROWS])
    header = tampered.header_of(arrays)
    room = HEADER - len(json.dumps(header)) - 100
    text = json.dumps(header)[:-1] + ', "more": [' + "[]," * (room // 3) + "0]}"
    assert len(text) <= HEADER
    data = tampered.stored(tampered.with_header(arrays, text))
    tracemalloc.start()
    try:
        assert not check(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * HEADER


def test_exponents_that_cvxpy_lets_pass_do_not_make_clarabel_panic() -> None:
    """They add up to 1 but for 1e-9; the judge is the client of the very exponents."""
    honest = tampered.packed()[CONES]
    arrays = tampered.entries(honest)
    header = tampered.header_of(arrays)
    for pair in header["cones"]:
        if pair[0] == "GenPowerConeT":
            pair[1] = [0.2, 0.3, 0.5 + 1e-9]
    points = []
    for data in (honest, tampered.stored(tampered.with_header(arrays, header))):
        found: Any = dm.unpack(data)
        q = found.signs.size
        turn = Turn(np.zeros(1, int), np.ones(q), np.ones(q), np.zeros(q))
        answers = NAMED["conic"].open([found]).minimise(turn, 1e-8)
        assert answers.statuses[0] == "optimal"
        points.append(answers.points)
    np.testing.assert_allclose(points[0], points[1], atol=1e-6)


def test_what_is_no_bytes_is_refused() -> None:
    with pytest.raises(dm.OptionError) as caught:
        dm.unpack("a client")  # pyright: ignore[reportArgumentType] - that is what is tested
    assert str(caught.value) == "unpack: given str, expected the bytes that pack gave"
    assert check(memoryview(tampered.packed()[ROWS]))  # pyright: ignore[reportArgumentType]


def test_numbers_that_overflow_are_not_sent() -> None:
    x = cp.Variable(2)
    model = dm.Model()
    model.client("a", 1e200 * cp.sum_squares(1e80 * x[:1]))
    model.client("b", cp.sum_squares(x))
    with np.errstate(over="ignore"):
        sub = model.compile()["a"]
        form: Any = sub.form
        if form is None:
            pytest.fail("the client has no form")
        with pytest.raises(dm.OptionError) as caught:
            dm.pack(sub)
    assert str(caught.value).startswith("client 'a': its numbers are not all finite (in ")
    assert str(caught.value).endswith(
        "), expected finite ones; give its Parameters finite values, or measure its data in other "
        "units where they overflow"
    )


def test_a_client_of_too_many_cones_is_not_sent() -> None:
    """The sender refuses what the receiver would."""
    sub: Any = tampered_client()
    cone = sub.form.cone
    sub.form.__dict__["cone"] = cone._replace(cones=(("NonnegativeConeT", 1),) * 200_000)
    with pytest.raises(dm.OptionError, match=r"its cones and terms take [0-9]+ bytes to list"):
        dm.pack(sub)


def tampered_client() -> Any:
    x = cp.Variable(2)
    model = dm.Model()
    model.client("a", cp.sum_squares(x), [x >= 1])
    model.client("b", cp.sum_squares(x))
    return model.compile()["a"]


def test_sparse_arguments_of_a_term_arrive() -> None:
    x = cp.Variable(40)
    model = dm.Model()
    model.client("a", cp.sum(cp.logistic(sp.eye_array(40, format="csr") @ x)))
    model.client("b", cp.sum_squares(x))
    sub: Any = model.compile()["a"]
    data = dm.pack(sub)
    assert "term0.indptr" in tampered.entries(data)
    assert check(data)
    (found,), (own,) = dm.unpack(data).form.terms, sub.form.terms
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found.matrix, part), getattr(own.matrix, part))
    arrays = dict(tampered.entries(data))
    arrays["term0.indices"] = arrays["term0.indices"] + 40
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    assert not check(stream.getvalue())
