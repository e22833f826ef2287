"""One value or a list of values out of each group: first, last, least, any, all."""
