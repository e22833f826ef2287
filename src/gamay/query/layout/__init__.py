"""Layout: how the segments of a table should be stored, and how stored segments are rewritten to match.

Input: a segment, and the table's schema and config. Output: a folder with its rows. Start with `rebuild`.
"""
