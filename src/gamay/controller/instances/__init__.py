"""Instances and tenants, and which servers the segments of tables go to."""
