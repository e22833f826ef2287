"""Segments of tables: uploaded, verified, replaced, reloaded, deleted. Start at `segments`."""
