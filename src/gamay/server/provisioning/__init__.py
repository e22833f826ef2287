"""Estimate of the hosts that a consuming table needs, from a sample."""
