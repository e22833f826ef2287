"""The datasketches library, imported on first use, as that takes longer than most queries."""

import importlib
from typing import Any


def datasketches() -> Any:
    """Return the module."""
    return importlib.import_module("datasketches")
