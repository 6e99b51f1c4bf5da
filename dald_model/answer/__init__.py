"""Answer: the result in the user's terms, and its verification."""
