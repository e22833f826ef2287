"""Batch job specs, and how their segments are named."""
