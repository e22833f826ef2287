"""Executes a bound query on the segments of a server, by kind: groups, distinct rows, selections. Start at `executor`."""
