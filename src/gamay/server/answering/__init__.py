"""Queries on the segments of this server, and the port that they come by. Start at `executor`."""
