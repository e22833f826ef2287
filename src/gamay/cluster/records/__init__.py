"""The cluster's records as objects, and the typed registry that reads and writes them, invariants checked.

Start at `records`.
"""
