"""Loading compiled kernels without what only compiling needs, and only those that were compiled of the present sources.

Numba's own cache prepares everything for compiling before it loads anything: it imports what types and lowers each function
of Python and NumPy (94 modules), compiles the counting of references, and parses the LLVM bitcode that lies beside each
kernel's machine code. A process all of whose kernels have been compiled before needs none of that; when it does compile one,
the compiler prepares itself.

A kernel's machine code contains the kernels that it calls and the constants that it reads, those of other modules, too.
Numba looks only at the path, the time and the size of the kernel's own file, so that kernels would go on with what another
module was before an update, and each installation would compile its own. Here a kernel's folder is named after the texts of
all modules that its own one is made of: where one of them is another, it is compiled anew, and installations of the same
sources share what one of them has compiled. What the cache has not may lie in a folder that can only be read, as in a
container, or have come with the wheel (`gamay.kernels.prebuilt`).

This rests on parts of Numba that are not public; `tests/kernels/test_cache.py` fails when a later version changes them.
"""

import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numba
from llvmlite import binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]

from gamay.kernels import prebuilt
from gamay.kernels.cache_folder import cache_dirs

_FOLDER = Path(__file__).parent
_IMPORTED = re.compile(r"^\s*from\s+gamay\.kernels((?:\.\w+)*)\s+import\s+(?:\(([^)]*)\)|(.*))", re.MULTILINE)


@cache
def _source(path: Path) -> tuple[bytes, frozenset[Path]]:
    """Return the digest of a module, and the modules of kernels that it imports."""
    text = path.read_bytes()
    statements = _IMPORTED.findall(text.decode())
    modules = {
        _module(package, name) for package, *names in statements for name in "".join(names).split(",") if name.strip()
    }
    return sha256(text).digest(), frozenset(modules)


def _module(dotted: str, name: str) -> Path:
    """Return the file that `from gamay.kernels<dotted> import <name>` reads: of a module, or of a module in a package."""
    path = _FOLDER.joinpath(*dotted.split("."))
    return path / f"{name.split()[0]}.py" if path.is_dir() else path.with_suffix(".py")


def stamp_of(path: Path) -> str:
    """Return what is another text when a module, or one of kernels that it imports, however indirectly, is another."""
    found: dict[Path, bytes] = {}
    left = [path]
    while left:
        module = left.pop()
        if module not in found:
            found[module], imported = _source(module)
            left += imported
    return sha256(b"".join(found[module] for module in sorted(found))).hexdigest()


@cache
def _roots() -> list[Path]:
    """Return the folders of this process: looked for once, so that a warning comes once."""
    return cache_dirs()


class _TextLocator(_CacheLocator):
    """Place of the kernels of a module, by the texts that it is made of."""

    def __init__(self, module: Path, line: int) -> None:
        self._stamp = sha256(f"{stamp_of(module)} {numba.__version__}".encode()).hexdigest()
        self._folder = _roots()[0] / f"{module.stem}-{self._stamp[:16]}"
        self._line = line

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._stamp

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "_TextLocator":
        return cls(Path(py_file), py_func.__code__.co_firstlineno)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: ClassVar = [_TextLocator]  # type: ignore[misc]


class KernelCache(FunctionCache):
    """Numba's cache of one kernel on disk, looked for when it is first called, and loaded with less."""

    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        self._py_func = py_func
        self._is_open = False

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled kernel for a signature, or None; Numba holds its compiler's lock meanwhile."""
        if not self._is_open:
            super().__init__(self._py_func)  # type: ignore[no-untyped-call]
            self._is_open = True
        codegen = target_context.codegen()
        if codegen._library_class is not _Library:
            codegen._library_class = _Library
            for name, address in _nrt_python.c_helpers.items():
                llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
        found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if found is not None and found.signature.args != tuple(sig):
            return None  # two processes that compiled it for different types at once have taken the same file
        return self._load_elsewhere(sig, target_context) if found is None else found

    def _load_elsewhere(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel from the folders that are only read, or from the wheel; or None."""
        impl: Any = self._impl
        name = Path(self._cache_path).name
        signature, (triple, *own), code = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]
        places = [(folder / name, own) for folder in _roots()[1:]]
        if (found := prebuilt.family()) is not None:
            places.append((found[0] / name, [found[1].cpu, found[1].features]))
        for folder, processor in places:
            file: Any = IndexDataCacheFile(str(folder), impl.filename_base, impl.locator.get_source_stamp())  # type: ignore[no-untyped-call]
            if (data := file.load((signature, (triple, *processor), code))) is not None:
                return impl.rebuild(target_context, data)
        return None


class _Library(JITCodeLibrary):
    """Machine code in this process; bitcode from the cache is parsed when a kernel is compiled that calls this one."""

    _module: Any = None
    _bitcode: bytes | None = None

    @property
    def _shared_module(self) -> Any:
        if self._module is None and self._bitcode is not None:
            self._module = llvm.parse_bitcode(self._bitcode)
            self._bitcode = None
        return self._module

    @_shared_module.setter
    def _shared_module(self, module: Any) -> None:
        self._module = module

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> Any:
        name, kind, content = state
        if kind != "object":
            return super()._unserialize(codegen, state)  # type: ignore[no-untyped-call]
        self: Any = cls(codegen, name)
        code, self._bitcode = content
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()
        return self

    def get_pointer_to_function(self, name: str) -> int:
        """Return where a function of this library starts."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return int(self._codegen._engine.get_function_address(name))
