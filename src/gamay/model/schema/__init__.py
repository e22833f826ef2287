"""Columns of a table: field types, defaults, date-time formats. Start at `schema`."""
