"""All aggregate functions of the package; importing this module registers them."""

from gamay.functions.aggregate import distinct, hll, numeric

__all__ = ["distinct", "hll", "numeric"]
