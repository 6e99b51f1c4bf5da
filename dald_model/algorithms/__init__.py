"""Algorithms as choices of multipliers, penalties, order and solver layer."""
