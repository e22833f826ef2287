"""Placement of segments: instance partitions, assignment, and rebalance steps. Pure functions."""
