"""Clients, consensus equalities, and the declaration that holds them."""
