"""Damaged and hostile input for all interfaces of a cluster: requests, queries, frames, segments, archives, records."""
