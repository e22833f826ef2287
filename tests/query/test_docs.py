"""The names in the package's description of a query exist."""

import importlib
import re

import gamay.query


def test_every_step_of_the_story_exists() -> None:
    names = re.findall(r"`(gamay\.[\w.]+)`", gamay.query.__doc__ or "")
    assert len(names) > 15
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
