"""The aggregate functions that most queries use; importing this module registers them."""

from gamay.functions.aggregate.distinct import distinct
from gamay.functions.aggregate.percentile import sorted_values
from gamay.functions.aggregate.totals import numeric

__all__ = ["distinct", "numeric", "sorted_values"]
