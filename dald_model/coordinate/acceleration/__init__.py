"""Acceleration of the outer loop: who proposes points, and the watchdog over them."""
