"""Kernels from the cache on disk, in separate processes: loading one imports no module that only compilation needs."""

import os
import platform
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from gamay.kernels import jit, prebuilt
from gamay.kernels.cache_folder import cache_dir

_MODULE = """
import numpy as np
from gamay.kernels.jit import kernel

@kernel
def total(values):
    result = 0
    for i in range(len(values)):
        result += np.int64(values[i])
    return result

@kernel
def twice_total(values):
    if len(values) == 0:
        raise ValueError("nothing to add")
    return 2 * total(values)

VALUES = np.arange(5, dtype=np.int32)
"""
_PREPARED = "import sys; prepared = 'numba.cpython.unicode' in sys.modules; "


def _run(folder: Path, code: str, *confinement: str) -> str:
    """Run code in a process, and return its output. confinement: a command that runs another with fewer rights."""
    own = {"GAMAY_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "home"), **own}
    command = [*confinement, sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_kernels_are_loaded_without_a_compiler_and_compiled_with_what_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(_MODULE)
    assert _run(tmp_path, "import sums; print(sums.total(sums.VALUES))") == "10"
    loaded = f"import sums; print(sums.total(sums.VALUES)); {_PREPARED} print(prepared)"
    assert _run(tmp_path, loaded).split() == ["10", "False"]
    # Compiling a kernel links the bitcode of one that was loaded: a process that loads only the new one has all.
    caller = "print(sums.total(sums.VALUES), sums.twice_total(sums.VALUES))"
    assert _run(tmp_path, f"import sums; {caller}").split() == ["10", "20"]
    alone = "import sums; print(sums.twice_total(sums.VALUES))"
    assert _run(tmp_path, f"{alone}; {_PREPARED} print(prepared)").split() == ["20", "False"]
    failing = "import sums\ntry:\n  sums.twice_total(sums.VALUES[:0])\nexcept ValueError as error:\n  print(error)"
    assert _run(tmp_path, failing) == "nothing to add"


def test_kernels_of_the_wheel_are_loaded_by_the_processors_that_they_are_for(tmp_path: Path) -> None:
    """A kernel is compiled for a processor family, as `tools.wheel` does, and loaded by a process with an empty cache."""
    name, family = "x86-64-v3", prebuilt.FAMILIES["x86-64-v3"]
    kernels = tmp_path / "gamay" / "kernels"
    kernels.parent.mkdir()
    (kernels.parent / "__init__.py").touch()
    shutil.copytree(Path(jit.__file__).parent, kernels, ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    text = "from gamay.kernels.jit import kernel\n\n@kernel\ndef added(value):\n    return value + 1\n"
    (kernels / "called.py").write_text(text)
    code = "from gamay.kernels.called import added; print(added(1), sum(added.stats.cache_hits.values()))"
    for_family = f"import os; os.environ.update(NUMBA_CPU_NAME='{family.cpu}', NUMBA_CPU_FEATURES='')\n"
    assert _run(tmp_path, for_family + code).split() == ["2", "0"]
    (kernels / "compiled").mkdir()
    shutil.move(tmp_path / "cache" / "kernels", kernels / "compiled" / name)
    if prebuilt_is_for_this_machine():
        assert _run(tmp_path, code).split() == ["2", "1"]
        assert not list((tmp_path / "cache").rglob("*.nb?"))
    elsewhere = "from gamay.kernels import prebuilt; prebuilt.FAMILIES.clear()\n"  # as on a processor of none
    assert _run(tmp_path, elsewhere + code).split() == ["2", "0"]
    shutil.rmtree(tmp_path / "cache")
    (kernels / "called.py").write_text(text.replace("value + 1", "value + 2"))
    assert _run(tmp_path, code).split() == ["3", "0"]


def prebuilt_is_for_this_machine() -> bool:
    needed = prebuilt.FAMILIES["x86-64-v3"].needed
    return platform.machine() == "x86_64" and all(llvm.get_host_cpu_features().get(name) for name in needed)


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    """Independent of file times; kernels are identified by module names, so the package is copied."""
    kernels = tmp_path / "gamay" / "kernels"
    kernels.parent.mkdir()
    (kernels.parent / "__init__.py").touch()
    shutil.copytree(Path(jit.__file__).parent, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    called = kernels / "called.py"
    text = "from gamay.kernels.jit import kernel\nSTEP = 1\n\n@kernel\ndef added(value):\n    return value + STEP\n"
    called.write_text(text)
    (kernels / "between.py").write_text("from gamay.kernels.called import added\nSAME = added\n")
    calling = "from gamay.kernels.jit import kernel\nfrom gamay.kernels.between import SAME\n\n@kernel\ndef twice(value):\n"
    (kernels / "calling.py").write_text(f"{calling}    return 2 * SAME(value)\n")
    code = "from gamay.kernels.calling import twice; print(twice(1), sum(twice.stats.cache_hits.values()))"
    assert _run(tmp_path, code).split() == ["4", "0"]
    assert _run(tmp_path, code).split() == ["4", "1"]
    at = called.stat()
    called.write_text(text.replace("STEP = 1", "STEP = 5"))
    os.utime(called, ns=(at.st_atime_ns, at.st_mtime_ns))
    shutil.rmtree(kernels / "__pycache__", ignore_errors=True)
    assert _run(tmp_path, code).split() == ["12", "0"]


def test_copies_of_the_same_sources_share_their_kernels(tmp_path: Path) -> None:
    """As installations of the same version do, independent of file times."""
    code = "import sums; print(sums.twice_total(sums.VALUES), sum(sums.twice_total.stats.cache_hits.values()))"
    for name, hits in (("first", "0"), ("second", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sums.py").write_text(_MODULE)
        os.utime(tmp_path / name / "sums.py", (len(name), len(name)))
        told = _run(tmp_path, f"import sys; sys.path.insert(0, {str(tmp_path / name)!r}); {code}")
        assert told.split() == ["20", hits]


def test_a_named_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GAMAY_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    with pytest.warns(UserWarning, match=r"GAMAY_CACHE_DIR: .*file/kernels .*; compiled kernels are kept in .*home/gamay"):
        assert cache_dir() == tmp_path / "home" / "gamay" / "kernels"
    monkeypatch.setenv("GAMAY_CACHE_DIR", str(tmp_path / "own"))
    with warnings.catch_warnings(action="error"):
        assert cache_dir() == tmp_path / "own" / "kernels"


def test_code_for_other_types_is_not_taken_for_a_kernel(tmp_path: Path) -> None:
    """Numba numbers the files of a kernel; two processes at once may give one number to the code of two signatures."""
    (tmp_path / "sums.py").write_text(_MODULE)
    hits = "print(sums.total(sums.VALUES{}), sum(sums.total.stats.cache_hits.values()))"
    for types in ("", " * 0.5"):
        _run(tmp_path, f"import sums; {hits.format(types)}")
    first, second = sorted((tmp_path / "cache").rglob("sums.total*.nbc"))
    shutil.copy(first, second)
    assert _run(tmp_path, f"import sums; {hits.format(' * 1.5')}").split()[1] == "0"
    assert _run(tmp_path, f"import sums; {hits.format('')}").split() == ["10", "1"]


def test_kernels_of_several_processes_are_called_by_their_own_names(tmp_path: Path) -> None:
    """The parts of `sort` and `argsort` have one name but for a number that each process counts for itself."""
    text = """
import numpy as np
from gamay.kernels.jit import kernel

@kernel
def ordered(values):
    values.sort()
    return values[0]

@kernel
def order(values):
    return np.argsort(values)[0]

VALUES = np.arange(100, 0, -1)
"""
    (tmp_path / "sorts.py").write_text(text)
    assert _run(tmp_path, "import sorts; print(sorts.ordered(sorts.VALUES))") == "1"
    assert _run(tmp_path, "import sorts; print(sorts.order(sorts.VALUES))") == "99"
    for first, second in ((("order", "99"), ("ordered", "1")), (("ordered", "1"), ("order", "99"))):
        calls = ", ".join(f"sorts.{name}(sorts.VALUES.copy())" for name, _ in (first, second))
        assert _run(tmp_path, f"import sorts; print({calls})").split() == [first[1], second[1]]


def test_kernels_in_a_folder_that_cannot_be_written_are_loaded(tmp_path: Path) -> None:
    """As from an image with a read-only root; missing kernels are compiled into the next folder."""
    (tmp_path / "sums.py").write_text(_MODULE)
    assert _run(tmp_path, "import sums; print(sums.total(sums.VALUES))") == "10"
    folders = [path for path in (tmp_path / "cache" / "kernels").rglob("*") if path.is_dir()]
    for folder in (tmp_path / "cache" / "kernels", *folders):
        folder.chmod(0o555)
    # a superuser may write everywhere
    confinement = ("setpriv", "--bounding-set=-all") if os.getuid() == 0 else ()
    hits = "print(*(sum(kernel.stats.cache_hits.values()) for kernel in (sums.total, sums.twice_total)))"
    code = f"import sums; print(sums.total(sums.VALUES), sums.twice_total(sums.VALUES)); {hits}"
    assert _run(tmp_path, code, *confinement).split() == ["10", "20", "1", "0"]
    assert {path.suffix for path in (tmp_path / "home").rglob("*") if path.is_file()} == {".nbi", ".nbc"}
    assert _run(tmp_path, code, *confinement).split() == ["10", "20", "1", "1"]
