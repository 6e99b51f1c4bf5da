"""Compile: a declaration becomes one subproblem a client, and its objective becomes numbers."""
