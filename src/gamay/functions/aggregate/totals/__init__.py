"""Sums and moments: COUNT, SUM, MIN, MAX, AVG, exact sums, variance, histograms."""
