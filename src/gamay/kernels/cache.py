"""Loading compiled kernels without what only compiling needs.

Numba's own cache prepares everything for compiling before it loads anything: it imports what types and lowers each function
of Python and NumPy (94 modules), compiles the counting of references, and parses the LLVM bitcode that lies beside each
kernel's machine code. A process all of whose kernels have been compiled before needs none of that; when it does compile one,
the compiler prepares itself.

This rests on parts of Numba that are not public; `tests/kernels/test_cache.py` fails when a later version changes them.
"""

from typing import Any

from llvmlite import binding as llvm
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]


class KernelCache(FunctionCache):
    """Numba's cache of one kernel on disk: the same files, looked for when it is first called, and loaded with less."""

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
        return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


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
