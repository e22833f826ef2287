"""The aggregate functions that most queries use; importing this module registers them."""

from gamay.functions.aggregate import digest, distinct, hll, numeric, quantile_digest, sorted_values

__all__ = ["digest", "distinct", "hll", "numeric", "quantile_digest", "sorted_values"]
