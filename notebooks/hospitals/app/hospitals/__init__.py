"""Flower app of four hospitals that share a risk score."""
