"""Runs of the suite are reproducible: the inputs that a property generates depend on the property alone."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[list[int]]:
    """Return the examples of a property."""
    found = []

    @settings(settings.get_profile("gamay"))
    @given(st.lists(st.integers(), min_size=20, max_size=20))
    def collect(numbers: list[int]) -> None:
        found.append(numbers)

    collect()
    return found


def test_examples_are_the_same_whatever_was_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    assert len(before) >= 50
    (tmp_path / "constants.py").write_text(f"NUMBERS = {[10**6 + 7 * number for number in range(500)]}\n")
    spec = spec_from_file_location("constants_of_a_test", tmp_path / "constants.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, spec.name, module)
    assert drawn() == before
