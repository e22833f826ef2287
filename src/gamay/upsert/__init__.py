"""Primary keys: which row of each key is valid."""
