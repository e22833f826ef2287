"""Distinct values of each group, exactly: counts, sums, sets as text."""
