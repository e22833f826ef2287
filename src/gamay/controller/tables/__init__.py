"""Schemas and tables: created, changed, enabled, disabled, deleted; their sizes and quotas."""
