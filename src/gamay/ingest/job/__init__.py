"""Batch job specs, and the naming of their segments."""
