"""Every function named in the SQL and PQL references exists."""

from pathlib import Path

import pytest

from gamay.functions.registry import is_aggregate, scalar_function

NAMES = [
    tuple(line.split())
    for line in (Path(__file__).parent / "reference_names.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("section", "name"), NAMES, ids=[" ".join(entry) for entry in NAMES])
def test_name_is_known(section: str, name: str) -> None:
    known = is_aggregate(name) if section.startswith("2.") else scalar_function(name) is not None or is_aggregate(name)
    assert known, f"section {section} names {name}"
