"""Columns of a table: types of fields, defaults, date-time formats. Start at `schema`."""
