"""Schemas and tables: created, changed, switched on and off, deleted; their sizes and quotas."""
