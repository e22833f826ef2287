"""Building of segments: rows are encoded by column and written as a complete folder. Start at `builder`."""
