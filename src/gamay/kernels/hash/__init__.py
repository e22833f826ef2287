"""Hash functions and hash tables of values."""
