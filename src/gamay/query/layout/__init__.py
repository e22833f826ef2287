"""How the segments of a table should be stored, and segments stored anew like that.

In: a segment, and the table's schema and config. Out: a folder with its rows. Start with `rebuild`.
"""
