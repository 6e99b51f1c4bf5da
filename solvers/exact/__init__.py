"""Exact: solvers that minimise a client's augmented Lagrangian to working accuracy."""
