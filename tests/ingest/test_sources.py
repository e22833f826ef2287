"""Listing input files by pattern."""

import pytest

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.ingest.read.sources import absolute_uri, list_files, path_matcher


@pytest.fixture
def folder(tmp_path):
    for name in ("a.csv", "b.json", "2024/c.csv", "2024/05/d.CSV", "_SUCCESS", ".hidden/e.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def names(folder, **options):
    return [f.removeprefix(f"{folder}/") for f in list_files(str(folder), **options)]


def test_list_files(folder):
    assert names(folder) == ["2024/05/d.CSV", "2024/c.csv", "a.csv", "b.json"]
    assert names(folder, recursive=False) == ["a.csv", "b.json"]
    assert names(folder, include="glob:**/*.csv") == ["2024/c.csv", "a.csv"]
    assert names(folder, include="glob:**/*.{csv,CSV}", exclude="regex:.*/2024/.*csv") == ["2024/05/d.CSV", "a.csv"]
    assert names(folder, include="regex:.*d\\.CSV") == ["2024/05/d.CSV"]
    assert list_files(f"file://{folder}/a.csv") == [f"{folder}/a.csv"]
    assert absolute_uri(f"file://{folder}") == str(folder)
    with pytest.raises(NotFoundError, match="does not exist"):
        list_files(str(folder / "nothing"))


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("glob:/data/*.csv", "/data/a.csv", True),
        ("glob:/data/*.csv", "/data/x/a.csv", False),
        ("glob:/data/**.csv", "/data/x/a.csv", True),
        ("glob:/data/?.csv", "/data/ab.csv", False),
        ("glob:/data/[ab].csv", "/data/b.csv", True),
        ("glob:/data/[!ab].csv", "/data/b.csv", False),
        ("glob:/data/a+b.csv", "/data/a+b.csv", True),
    ],
)
def test_patterns(pattern, path, matches):
    assert path_matcher(pattern)(path) is matches


def test_bad_patterns():
    with pytest.raises(InvalidConfigError, match="must start with 'glob:' or 'regex:'"):
        path_matcher("*.csv")
    with pytest.raises(InvalidConfigError, match="is not valid"):
        path_matcher("regex:(")
