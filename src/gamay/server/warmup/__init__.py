"""Compilation of the kernels of queries and upserts before a user waits for it."""
