"""The datasketches library, imported when a query first needs it: that takes longer than most queries."""

import importlib
from typing import Any


def datasketches() -> Any:
    """Return the module."""
    return importlib.import_module("datasketches")
