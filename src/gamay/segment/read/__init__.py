"""Segments that are open: mapped columns, defaults of younger columns, visible rows. Start at `reader`."""
