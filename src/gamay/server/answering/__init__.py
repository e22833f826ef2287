"""Execution of queries on the segments of this server, and the query port. Start at `executor`."""
