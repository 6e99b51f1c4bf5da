"""Results in the user's terms, and their verification."""
