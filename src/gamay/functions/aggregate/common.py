"""The aggregate functions that many, but not most, queries use; importing this module registers them."""

from gamay.functions.aggregate.percentile import digest, quantile_digest
from gamay.functions.aggregate.sketch import hll

__all__ = ["digest", "hll", "quantile_digest"]
