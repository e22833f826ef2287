"""Whether a query is let in, and with what: rates, length of its text, limits of memory and time."""
