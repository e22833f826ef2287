"""Filters: from a bound predicate tree and a segment to the matching rows (`apply_filter`)."""
