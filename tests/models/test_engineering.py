"""The gallery's grids, chains and vehicles against HiGHS, SLSQP and published figures."""

import numpy as np
import pytest
from scipy.optimize import linprog

from dald_model.datasets import Array
from tests.models.slsqp import slsqp
from tests.models.test_regressions import gallery, reference


def test_the_rates_are_those_of_slsqp_and_what_the_prices_of_their_routes_buy() -> None:
    model = gallery("resource_allocation")
    pays = np.array([pay for pay, _ in model.ROUTES.values()])
    over = np.array(
        [[link in links for link in model.CAPACITY] for _, links in model.ROUTES.values()]
    )
    spare = [
        lambda x, row=row, limit=limit: (limit - row @ x, -row)
        for row, limit in zip(over.T.astype(float), model.CAPACITY.values(), strict=True)
    ]
    value = slsqp(
        lambda x: (-float(pays @ np.log(x)), -pays / x), np.ones(5), spare, [(1e-6, None)] * 5
    )
    assert reference("resource_allocation") == pytest.approx(-value, rel=1e-8)

    declared = model.model()
    declared.solve()
    prices = np.array([float(c.constraints[0].dual_value) for c in declared.couplings.values()])
    rates = [client.variables[0].value for client in declared.clients.values()]
    assert list(declared.couplings) == list(model.CAPACITY)
    assert rates == pytest.approx(pays / (over @ prices), rel=1e-4)


def test_the_grid_costs_what_highs_says_and_its_prices_are_matpower_s() -> None:
    model = gallery("power_flow")
    grid = model.FIVE_BUSES
    buses = list(grid.loads)
    count = len(grid.generators)
    balance = np.zeros((5, count + 5))
    flows = np.zeros((len(grid.lines), count + 5))
    for at, (bus, _, _) in enumerate(grid.generators):
        balance[buses.index(bus), at] = 1
    for row, (one, other, reactance, _) in zip(flows, grid.lines, strict=True):
        row[count + buses.index(one)], row[count + buses.index(other)] = (
            100 / reactance,
            -100 / reactance,
        )
        balance[buses.index(one)] -= row
        balance[buses.index(other)] += row
    limits = np.array([limit for *_, limit in grid.lines])
    tight = np.isfinite(limits)
    found = linprog(
        [cost for _, cost, _ in grid.generators] + [0] * 5,
        np.vstack([flows[tight], -flows[tight]]),
        np.r_[limits[tight], limits[tight]],
        balance,
        list(grid.loads.values()),
        [(0, capacity) for *_, capacity in grid.generators] + [(0, 0)] + [(None, None)] * 4,
    )
    assert reference("power_flow") == pytest.approx(found.fun, rel=1e-9)
    assert reference("power_flow") == pytest.approx(17479.90, abs=0.005)  # MATPOWER, case5, DC

    declared = model.model()
    declared.solve()
    prices = {}
    for name, own in model.AREAS.items():
        for bus, rule in zip(own, declared.clients[name].constraints, strict=False):
            prices[bus] = abs(float(rule.dual_value))
    # MATPOWER's prices at the buses of case5, USD a MWh
    printed = {"A": 16.977, "B": 26.384, "C": 30.0, "D": 39.943, "E": 10.0}
    assert prices == pytest.approx(printed, abs=1e-3)


def test_the_supply_chain_costs_what_gams_prints() -> None:
    model = gallery("supply_chain")
    cost = np.concatenate([costs for _, costs in model.PLANTS.values()])
    rows = np.vstack([np.kron(np.eye(2), np.ones(3)), -np.kron(np.ones(2), np.eye(3))])
    found = linprog(
        cost, rows, np.r_[[capacity for capacity, _ in model.PLANTS.values()], -model.DEMAND]
    )
    assert found.fun == pytest.approx(153.675, rel=1e-12)
    assert reference("supply_chain") == pytest.approx(153.675)


def test_the_estimated_state_is_that_of_highs_and_the_bad_reading_stands_out() -> None:
    model = gallery("state_estimation")
    parts = model.readings(model.FIVE_BUSES, model.AREAS)
    H, z = (np.concatenate(part) for part in zip(*parts.values(), strict=True))
    N, m = H.shape
    found = linprog(
        np.r_[np.zeros(m), np.ones(N)],
        np.block([[H, -np.eye(N)], [-H, -np.eye(N)]]),
        np.r_[z, -z],
        bounds=[(0, 0)] + [(None, None)] * (m - 1) + [(0, None)] * N,
    )
    assert reference("state_estimation") == pytest.approx(found.fun, rel=1e-8)
    declared = model.model()
    declared.solve()
    angles = {v.name(): v.value for c in declared.clients.values() for v in c.variables}
    miss = H @ [float(angles[f"angle {at}"]) for at in range(m)] - z
    assert np.argmax(np.abs(miss)) == len(z) - len(parts["north"][1])
    assert np.partition(np.abs(miss), -2)[-2] < 2 < 45 < np.abs(miss).max()


def test_the_vehicles_meet_where_slsqp_says() -> None:
    model = gallery("predictive_control")
    steps, count = 8, len(model.STATES)
    powers = [np.linalg.matrix_power(model.DRIFT, k) for k in range(steps + 1)]
    reach = np.hstack([powers[steps - 1 - t] @ model.PUSH for t in range(steps)])
    free = np.array([powers[steps] @ state for state in model.STATES.values()])
    # s_T = free + reach u; all end at rest, and at the place where the first does
    rows, right = [], []
    for at in range(count):
        own = np.zeros((4, count * 2 * steps))
        own[:, at * 2 * steps : (at + 1) * 2 * steps] = reach
        rows.append(own)
        right.append(-free[at])
    E = np.vstack([rows[0][2:], *(np.vstack([r[:2] - rows[0][:2], r[2:]]) for r in rows[1:])])
    e = np.concatenate([right[0][2:], *(np.r_[r[:2] - right[0][:2], r[2:]] for r in right[1:])])
    _, s, V = np.linalg.svd(E)
    base, span = np.linalg.lstsq(E, e)[0], V[np.sum(s > 1e-9) :].T

    def effort(y: Array) -> tuple[float, Array]:
        u = base + span @ y
        return float(u @ u), 2 * span.T @ u

    limits = []
    for k in range(len(base)):
        for sign in (1, -1):
            limits.append(
                lambda y, k=k, sign=sign: (0.4 - sign * (base + span @ y)[k], -sign * span[k])
            )
    value = slsqp(effort, np.zeros(span.shape[1]), limits)
    assert reference("predictive_control") == pytest.approx(value, rel=1e-8)
    assert effort(np.zeros(span.shape[1]))[0] < value - 1e-3, "the limit binds"
