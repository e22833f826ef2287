"""The aggregate functions that many queries use, not most; importing this module registers them."""

from gamay.functions.aggregate.percentile import digest, quantile_digest
from gamay.functions.aggregate.sketch import hll

__all__ = ["digest", "hll", "quantile_digest"]
