"""A bound query over the segments of a server, by kind: groups, distinct rows, selections. Start at `executor`."""
