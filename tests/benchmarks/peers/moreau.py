"""Moreau, a conic solver on processors and accelerators, through cvxpy's interface."""

from __future__ import annotations

from tests.benchmarks.peers.all_in_one import CONIC, by

PEERS = {"cvxpy, Moreau": by("MOREAU", *CONIC)}
