"""Kernels that were compiled when the wheel was built, for all processors of a family; a clone of the sources has none.

    compiled/<family>/<module>-<stamp>/…     as in the cache on disk, see `gamay.kernels.cache`
    compiled/<family>/catalog-….complete     as there, see `gamay.kernels.catalog.compiling`

A family is a level of x86-64 as its psABI defines them, some with more: what is compiled for it runs on each processor that
has its features. Kernels of other sources, or versions of Numba or Python, are not found, and compiled as in a clone.
"""

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import llvmlite.binding

FOLDER = Path(__file__).parent / "compiled"
_V3 = frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"})
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@dataclass(frozen=True, slots=True)
class Family:
    """Processors that run the same machine code.

    cpu, features: what it is compiled for, as the settings of Numba say it; needed: what a processor has to have, by the
    names that LLVM gives to features.
    """

    cpu: str
    features: str
    needed: frozenset[str]


FAMILIES = {
    # also what rows are kept by, which takes twice as long without (`gamay.kernels.rows.masks`)
    "x86-64-v4-vbmi2": Family("x86-64-v4", "+avx512f,+avx512vbmi2", _V4 | {"avx512vbmi2"}),
    "x86-64-v3": Family("x86-64-v3", "", _V3),
}
"""The families that a wheel has kernels for, the one with the most features first."""


@cache
def family() -> tuple[Path, Family] | None:
    """Return the kernels for this processor, and the family that they are for; None where there are none."""
    if platform.system() != "Linux" or platform.machine() != "x86_64" or not FOLDER.is_dir():
        return None
    own = {name for name, is_on in llvmlite.binding.get_host_cpu_features().items() if is_on}
    found = ((FOLDER / name, family) for name, family in FAMILIES.items() if family.needed <= own)
    return next(((folder, family) for folder, family in found if folder.is_dir()), None)
