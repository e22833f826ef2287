"""Functions of points in time: fields, truncation, units, formats, zones."""
