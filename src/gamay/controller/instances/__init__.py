"""Instances and tenants, and requests to servers in other processes."""
