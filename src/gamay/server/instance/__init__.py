"""Reconciliation of a server with the ideal states, and reporting of current states. Start at `instance`."""
