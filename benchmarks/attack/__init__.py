"""Damaged and hostile input for all that a cluster takes: requests, queries, frames, segments, archives, records."""
