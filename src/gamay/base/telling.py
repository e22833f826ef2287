"""Warnings to users: what they should know although nothing has failed."""

import sys
import warnings
from pathlib import Path
from types import FrameType

_PACKAGE = str(Path(__file__).parents[1])


def tell(text: str) -> None:
    """Issue a UserWarning that points to the line that called Gamay."""
    frame: FrameType | None = sys._getframe(0)
    level = outermost = 0
    while frame is not None:
        level += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            outermost = level
        frame = frame.f_back
    warnings.warn(text, UserWarning, stacklevel=outermost + 1)
