"""The aggregate functions that most queries use; importing this module registers them."""

from gamay.functions.aggregate import distinct, numeric, sorted_values

__all__ = ["distinct", "numeric", "sorted_values"]
