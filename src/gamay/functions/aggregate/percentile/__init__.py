"""Percentiles and modes: exact, and by t-digest, quantile digest and KLL."""
