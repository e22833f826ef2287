"""Primary keys: their bytes, their table, building it at once, merging rows."""
