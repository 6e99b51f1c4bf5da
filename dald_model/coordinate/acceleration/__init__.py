"""Acceleration of the outer loop: models that propose points, and the safeguard over them."""
