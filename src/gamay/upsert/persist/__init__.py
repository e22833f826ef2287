"""Persistent state: snapshots of valid docs, key files, and snapshots in the deep store. Start at `stored`."""
