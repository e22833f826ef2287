"""The expression tree, vectors of values, and the registry of scalar and aggregate functions."""
