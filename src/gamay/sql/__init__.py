"""Compiles the text of a query to the query model: dialect, normalisation, plan templates, positions for errors."""
