"""DataFrames to tables: rows to hidden segments, shown at once; what an overwrite replaces."""
