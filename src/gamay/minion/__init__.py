"""Runs maintenance tasks."""
