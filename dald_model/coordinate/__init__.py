"""Coordinate: Algorithms 2 and 3 of the paper, the one loop and what it asks."""
