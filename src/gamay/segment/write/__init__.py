"""Building segments: rows in, encoded columns, a complete folder out. Start at `builder`."""
