"""Kernels that were compiled when the wheel was built, for all processors of a family; a clone of the sources has none.

    compiled/<family>/<module>-<stamp>/…     as in the cache on disk, see `gamay.kernels.cache`
    compiled/<family>/catalog-….complete     as there, see `gamay.kernels.catalog.compiling`

A family is a level of x86-64 as its psABI defines them: what is compiled for it runs on each processor that has its
features. Kernels of other sources, versions of Numba or of Python than here are not found, and compiled as in a clone.
"""

import platform
from functools import cache
from pathlib import Path

import llvmlite.binding

FOLDER = Path(__file__).parent / "compiled"
FAMILIES = {
    "x86-64-v3": frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}),
}
"""What processors of each family have beyond the first level, by the names that LLVM gives to features."""


@cache
def family() -> str | None:
    """Return the family of this processor whose kernels are here; None where there are none for it."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return None
    there = [name for name in FAMILIES if (FOLDER / name).is_dir()]
    if not there:
        return None
    own = {name for name, is_on in llvmlite.binding.get_host_cpu_features().items() if is_on}
    return next((name for name in there if FAMILIES[name] <= own), None)
