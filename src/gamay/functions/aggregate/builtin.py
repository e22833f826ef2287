"""All aggregate functions of the package; importing this module registers them."""

from gamay.functions.aggregate import numeric

__all__ = ["numeric"]
