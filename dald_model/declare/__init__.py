"""Declare: clients, consensus equalities, and what they add up to."""
