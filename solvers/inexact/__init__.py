"""Inexact: solvers that take a few steps, and say how far they are from minimising."""
