"""Distances between vectors, and the nearest centroids."""
