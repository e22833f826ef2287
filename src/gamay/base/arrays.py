"""Types of NumPy arrays, for annotations."""

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""Of any type."""

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""One flag for each row."""
