"""Limits on a query: memory, time, a place in the queue. Start with `budget`."""
