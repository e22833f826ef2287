"""The scalar functions that many queries use, not most: one module for each family; importing this module registers them."""

from gamay.functions.scalar import arrays, bits, epochs, hashing, json_path

__all__ = ["arrays", "bits", "epochs", "hashing", "json_path"]
