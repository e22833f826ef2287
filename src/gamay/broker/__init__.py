"""Accepts queries, prunes, routes, merges, answers."""
