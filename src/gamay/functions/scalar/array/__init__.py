"""Functions of multi-value arguments, including vectors."""
