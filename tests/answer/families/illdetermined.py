"""Owners whose own fits are ill-determined, while the pooled data determine the answer."""

from __future__ import annotations

import numpy as np

from tests.answer.families.drawn import Drawn
from tests.answer.families.pooled import pooled

Rng = np.random.Generator
Data = list[tuple[np.ndarray, np.ndarray]]


def unequal_spreads(rng: Rng, seed: int) -> Drawn | None:
    """Least squares whose owners measure a feature with spreads of ratio 1e2 to 1e8."""
    owners, size = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    half = rng.uniform(1, 4)
    powers = np.zeros((owners, size))
    for feature in range(1, size):
        powers[:, feature] = rng.permutation(np.linspace(-half, half, owners))
    rows = int(rng.integers(size + 1, 25))
    data: Data = []
    for power in powers:
        A = rng.normal(size=(rows, size)) * 10.0**power
        data.append((A, rng.normal(size=rows)))
    kind = f"ratio 1e{2 * half:.0f}, {owners} owners"
    return pooled("unequal spreads", kind, seed, "squares", data, chain=rng.random() < 0.4)


def polynomials(rng: Rng, seed: int) -> Drawn | None:
    """Polynomials of degree 2 to 13 in windows that are far apart, one per owner."""
    owners = int(rng.integers(2, 6))
    where = str(rng.choice(["years", "ages", "near", "far"]))
    start, width, step, most = {
        "years": (1990.0, 10.0, 10.0, 4),
        "ages": (20.0, 25.0, 25.0, 7),
        "near": (0.0, 1.0, 1.0, 13),
        "far": (0.0, 1.0, 10.0 ** rng.uniform(0.5, 3), 6),
    }[where]
    degree = int(rng.integers(2, most + 1))
    rows = int(rng.integers(degree + 2, 41))
    data: Data = []
    for at in range(owners):
        t = start + at * step + np.sort(rng.uniform(0, width, rows))
        b = 1 + 0.3 * np.sin((t - start) / width) + 0.1 * rng.normal(size=rows)
        data.append((np.vander(t, degree + 1, increasing=True), b))
    kind = f"{where}, degree {degree}, {owners} owners"
    return pooled("polynomials", kind, seed, "squares", data, chain=rng.random() < 0.3)


def collinear(rng: Rng, seed: int) -> Drawn | None:
    """Columns that are equal up to 1e-2 to 1e-7 at each owner."""
    owners, size = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    power = rng.uniform(2, 7)
    true = rng.normal(size=size)
    true = (true - true.mean()) * 10.0 ** (power * rng.choice([0.0, 1.0]))
    data: Data = []
    for _ in range(owners):
        rows = int(rng.integers(size, 40))
        A = rng.normal(size=(rows, 1)) + 10.0**-power * rng.normal(size=(rows, size))
        data.append((A, A @ true + 0.1 * rng.normal(size=rows)))
    loss = str(rng.choice(["squares", "huber"], p=[0.8, 0.2]))
    kind = f"{loss}, to 1e-{power:.0f}, {owners} owners"
    return pooled("collinear", kind, seed, loss, data)


def valleys(rng: Rng, seed: int) -> Drawn | None:
    """Few rows per owner, nearly parallel to all others': the minimum is at the end of a valley."""
    owners, size = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    power, rows = rng.uniform(1, 6), int(rng.integers(1, 4))
    base = rng.normal(size=(1, size))
    data: Data = []
    for _ in range(owners):
        A = base + 10.0**-power * rng.normal(size=(rows, size))
        data.append((A, np.repeat(rng.normal(), rows) + 0.3 * rng.normal(size=rows)))
    loss = str(rng.choice(["huber", "l1"], p=[0.6, 0.4]))
    kind = f"{loss}, 1e-{power:.0f}, {rows} rows of {size}, {owners} owners"
    return pooled("valleys", kind, seed, loss, data, chain=rng.random() < 0.5)


def conditioned(rng: Rng, seed: int) -> Drawn | None:
    """Logistic and Huber regression with a condition number of 1e3 to 1e10."""
    owners, size = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    power = rng.uniform(3, 10)
    turned = np.linalg.qr(rng.normal(size=(size, size)))[0] if rng.random() < 0.6 else np.eye(size)
    axes = 10.0 ** -np.linspace(0, power, size)[:, None] * turned
    loss = str(rng.choice(["logistic", "huber"]))
    data: Data = []
    for _ in range(owners):
        rows = int(rng.integers(4 * size, 40))
        spread = rng.normal(size=(rows, size))
        signal = spread @ np.ones(size) + rng.normal(size=rows)
        A, b = spread @ axes, signal
        if loss == "logistic":
            A, b = -np.sign(signal)[:, None] * A, np.zeros(rows)
        data.append((A, b))
    kind = f"{loss}, condition 1e{power:.0f}, {owners} owners"
    return pooled("conditioned", kind, seed, loss, data, chain=rng.random() < 0.3)


def not_unique(rng: Rng, seed: int) -> Drawn | None:
    """Fewer rows than columns, or a column that occurs twice: many minimisers, one optimum."""
    owners, size = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    few = rng.random() < 0.5
    loss = str(rng.choice(["squares", "squares", "huber", "l1"]))
    data: Data = []
    for _ in range(owners):
        rows = 1 if few else int(rng.integers(size, 15))
        A = rng.normal(size=(rows, size)) * 10.0 ** rng.uniform(-2, 2)
        if not few or owners > size:
            A[:, -1] = A[:, 0]
        data.append((A, rng.normal(size=rows)))
    kind = f"{loss}, {'few rows' if few else 'a column twice'}, {owners} owners"
    return pooled("not unique", kind, seed, loss, data, chain=rng.random() < 0.3)
