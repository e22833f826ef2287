"""Clients of a cluster's HTTP interfaces; they start without the engine."""
