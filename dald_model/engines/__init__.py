"""Engines: where groups of clients are solved, and what is sent to them."""
