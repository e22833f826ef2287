"""The catalog of kernels: it matches the sources, types are restored, and processes divide its compilation."""

import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numba import typeof, types

from gamay.kernels.catalog import compiling
from gamay.kernels.catalog.entries import Entry, read_entries, shared, write_entries
from gamay.kernels.catalog.types import text_of, types_of


def test_each_entry_is_a_kernel_with_so_many_arguments() -> None:
    for entry in read_entries():
        kernel = getattr(import_module(f"gamay.kernels.{entry.module}"), entry.name).py_func
        assert len(types_of(entry.types)) == len(inspect.signature(kernel).parameters), entry


def test_entries_are_read_as_written(tmp_path: Path) -> None:
    entries = read_entries()
    assert len(set(entries)) == len(entries) > 1000
    write_entries(entries, tmp_path / "again.txt")
    assert read_entries(tmp_path / "again.txt") == entries


def test_types_come_back() -> None:
    fixed = np.zeros((2, 3), np.int16)
    fixed.flags.writeable = False
    values = (
        1, 2.5, True, np.uint8(3), np.zeros(2, np.float32), fixed, np.zeros((4, 4), bool)[::2, ::2],
        np.asfortranarray(fixed), (np.zeros(1, np.int64), (1, 2.0), np.zeros(1, np.uint64)), (1, 1),
    )  # fmt: skip
    for value in values:
        kind = typeof(value)
        text = text_of(kind)
        assert text is not None
        assert types_of(text) == (kind,)
    assert text_of(types.literal(4)) is None
    assert text_of(types.unicode_type) is None
    assert types_of("") == ()


@pytest.mark.parametrize("text", ["int65", "int64[C1]", "Array", "()"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no type"):
        types_of(text)


def test_parts_have_everything_once() -> None:
    entries = read_entries()
    parts = shared(entries, 3)
    assert sorted(entry for part in parts for entry in part) == sorted(entries)
    assert max(map(len, parts)) < 1.2 * min(map(len, parts))


def test_processes_compile_what_they_can_and_note_it(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom gamay.kernels.catalog import compiling, entries\n"
        "chosen = next(one for one in entries.read_entries() if one.name == 'is_ascending')\n"
        "others = [entries.Entry(chosen.module, chosen.name, 'int64 int64 int64'), entries.Entry('gone', 'gone', 'int64')]\n"
        "compiling.read_entries = lambda: [chosen, *others]\ntold = []\n"
        "print(compiling.is_compiled(), compiling.compile_part(0, 1, told.append), compiling.is_compiled(), len(told))\n"
    )
    env = {**os.environ, "GAMAY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "2"]


def test_what_a_processor_cannot_run_is_not_compiled_for_it(tmp_path: Path) -> None:
    """LLVM ends the process where a kernel has instructions that the processor lacks, here one without AVX-512."""
    program = (
        "from gamay.kernels.catalog import entries\n"
        "chosen = [one for one in entries.read_entries() if one.name.startswith('compress_')]\n"
        "for one in chosen:\n    one.compile()\nprint(len(chosen))\n"
    )
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    env = {**os.environ, "GAMAY_CACHE_DIR": str(tmp_path), **plain}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, int(done.stdout) > 7) == (0, True), done.stderr


def test_one_process_compiles_a_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GAMAY_CACHE_DIR", str(tmp_path))
    inner: list[bool] = []

    def entries() -> list[Entry]:
        inner.append(compiling.compile_part(0, 2, print))
        return []

    monkeypatch.setattr(compiling, "read_entries", entries)
    assert compiling.compile_part(0, 2, print)
    assert inner == [False]
    assert not compiling.is_compiled()
