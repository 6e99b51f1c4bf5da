"""Flower's app of the three sites."""
