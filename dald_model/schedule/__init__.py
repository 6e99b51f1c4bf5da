"""Schedule: who is solved when; knows graphs and names, never data."""
