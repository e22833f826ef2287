"""The aggregate functions that many queries use, not most; importing this module registers them."""

from gamay.functions.aggregate import digest, hll, quantile_digest

__all__ = ["digest", "hll", "quantile_digest"]
