"""Functions of multi-value arguments, vectors among them."""
