"""Arrow without pandas, until the program imports pandas.

Arrow looks for pandas once, when it first creates an array or passes one to NumPy. If pandas is installed, that
imports it: a third of a second and 30 MiB for processes that never see a DataFrame, and two threads doing so at once
can fail. Here Arrow looks before there are threads and finds nothing; if pandas is imported later, Arrow is made to
look again, so that Series and DataFrames are converted as usual.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pyarrow as pa

_looked = threading.Lock()


def keep_arrow_from_importing_pandas() -> None:
    """Make Arrow look for pandas and not find it; to be called before a second thread uses Arrow. Later calls do
    nothing."""
    if not _looked.acquire(blocking=False):
        return
    if "pandas" in sys.modules:
        pa.scalar(0)
        return
    watch = _Watch(threading.get_ident())
    sys.meta_path.insert(0, watch)
    pa.scalar(0)
    watch.hidden_in = None


class _Watch:
    """A module finder that hides pandas from one thread, and later notifies Arrow of its import.

    hidden_in: the thread that finds no pandas, None if all find it.
    """

    def __init__(self, hidden_in: int | None) -> None:
        self.hidden_in = hidden_in

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find pandas by the other finders; everything else is left to them."""
        if name != "pandas":
            return None
        if self.hidden_in == threading.get_ident():
            raise ModuleNotFoundError("pandas is not needed yet", name=name)
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            self._watch_loading(spec.loader)
        return spec

    def _watch_loading(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            # Arrow does not look again by itself, but a conversion that cannot do without pandas makes it.
            pa.table({}).to_pandas()

        loader.exec_module = exec_module
