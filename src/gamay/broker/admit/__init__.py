"""Admission of queries: rates, length of the text, limits of memory and time."""
