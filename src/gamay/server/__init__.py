"""Hosts segments and executes queries."""
