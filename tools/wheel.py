"""Build a wheel with compiled kernels, so that nothing is compiled after its installation.

    python -m tools.wheel [--out dist]

Compiles the catalog for each family of processors, on all processors of this machine, then builds the wheel. It installs
everywhere; its kernels are used by the same versions of Python and Numba on Linux. A wheel without them is made by
`pip wheel .`, and here on a machine of another architecture: kernels are then compiled on the machine where they are used.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from tools.wheel_kernels import FOLDER

from gamay.kernels.prebuilt import FAMILIES, Family

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "wheel"
_COMPILE = """
from gamay.kernels.catalog import compiling
compiling.finish(compiling.start({processes}))
if not compiling.is_compiled():
    raise SystemExit("not all kernels could be compiled")
"""


def main() -> int:
    """Build; return the status of the command that failed, if any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out: Path = parser.parse_args().out
    kernels = WORK / "families"
    shutil.rmtree(WORK, ignore_errors=True)
    kernels.mkdir(parents=True)
    for name, family in FAMILIES.items() if platform.machine() == "x86_64" else ():
        print(f"compiling kernels for {name} ...", flush=True)
        compile_for(family, WORK / "cache" / name, kernels / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT), "-w", str(out)],
        env={**os.environ, FOLDER: str(kernels)},
        check=True,
    )
    return 0


def compile_for(family: Family, scratch: Path, folder: Path) -> None:
    """Compile all kernels for a family of processors into a folder. Raises CalledProcessError."""
    settings = {"GAMAY_CACHE_DIR": str(scratch), "NUMBA_CPU_NAME": family.cpu, "NUMBA_CPU_FEATURES": family.features}
    code = _COMPILE.format(processes=os.cpu_count() or 1)
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **settings}, check=True)
    shutil.copytree(scratch / "kernels", folder, ignore=shutil.ignore_patterns("*.lock"))


if __name__ == "__main__":
    sys.exit(main())
