"""Filters: a bound predicate tree and a segment in, the matching rows out (`apply_filter`)."""
