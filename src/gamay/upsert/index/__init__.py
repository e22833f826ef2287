"""From a primary key to the row that is its latest: the hash index, its keys, the order of comparison values.

Start at `key_index`.
"""
