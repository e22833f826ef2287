"""Primary keys: which row of a key is the one that counts."""
