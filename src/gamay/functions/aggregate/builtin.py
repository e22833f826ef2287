"""All aggregate functions of the package; importing this module registers them."""

from gamay.functions.aggregate import digest, distinct, hll, numeric

__all__ = ["digest", "distinct", "hll", "numeric"]
