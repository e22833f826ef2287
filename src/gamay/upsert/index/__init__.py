"""The hash index from a primary key to its latest row, its keys, and the order of comparison values.

Start at `key_index`.
"""
