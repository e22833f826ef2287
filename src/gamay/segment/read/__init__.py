"""Open segments: mapped columns, defaults of columns added later, visible rows. Start at `reader`."""
