"""Algorithms: small objects that tell the one loop what to do with mu, rho, order and solver."""
