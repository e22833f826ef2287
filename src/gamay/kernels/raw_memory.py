"""Memory by address: bytes, words, and 64 bytes at a time, of which the wanted ones come as the bits of a number.

A call of a compiled function counts references to each array that it is given, and so does one that is inlined: 5 ns each.
A kernel that looks at a text byte by byte through helpers takes the addresses of its arrays instead (`array.ctypes.data`),
keeps the arrays, and sees to it itself that a position is inside. The vector types of LLVM are named here, as Numba has
none; where a processor has narrower ones, LLVM makes several of one.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

LANES = 64

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_BYTES = ir.VectorType(_BYTE, LANES)


def _instruction(build: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of kernels of one that returns its signature and builds its code."""
    made: Callable[..., Any] = intrinsic(build)
    return made


def _place(builder: Any, address: Any, offset: Any, to: Any) -> Any:
    return builder.inttoptr(builder.add(address, offset), to.as_pointer())


def _splat(builder: Any, byte: Any) -> Any:
    one = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), byte, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _loaded(builder: Any, address: Any, position: Any) -> Any:
    return builder.load(_place(builder, address, position, _BYTES), align=1)


def has_features(*names: str) -> bool:
    """Tell whether kernels are compiled for a processor with all of these features, as LLVM names them."""
    given = config.CPU_FEATURES  # type: ignore[attr-defined]
    features = get_host_cpu_features() if given is None else given  # type: ignore[no-untyped-call]
    return {f"+{name}" for name in names} <= set(features.split(","))


def compressing(bits: int) -> Any:
    """Return the function of kernels that writes those of 64 bytes of numbers, of so many bits each, whose flags are set.

    It takes the addresses of where to write, where all 64 bytes are written, of the numbers, and of the flags, a byte each,
    and returns how many are kept: int64. Only for processors with `avx512f`, below 32 bits with `avx512vbmi2`.
    """
    lanes = 8 * LANES // bits
    numbers, marks = ir.VectorType(ir.IntType(bits), lanes), ir.VectorType(_BYTE, lanes)
    of_marks = ir.VectorType(ir.IntType(1), lanes)

    def build(typingctx: Any, target: Any, source: Any, flags: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = builder.load(builder.inttoptr(args[1], numbers.as_pointer()), align=1)
            kept = builder.load(builder.inttoptr(args[2], marks.as_pointer()), align=1)
            kept = builder.icmp_unsigned("!=", kept, ir.Constant(marks, [0] * lanes))
            name = f"llvm.x86.avx512.mask.compress.v{lanes}i{bits}"
            function_type = ir.FunctionType(numbers, [numbers, numbers, of_marks])
            function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
            out = builder.call(function, [values, ir.Constant(numbers, [0] * lanes), kept])
            builder.store(out, builder.inttoptr(args[0], numbers.as_pointer()), align=1)
            count = builder.ctpop(builder.bitcast(kept, ir.IntType(lanes)))
            return count if lanes == _WORD.width else builder.zext(count, _WORD)

        return types.int64(types.int64, types.int64, types.int64), codegen

    return _instruction(build)


def pointing(kind: Any) -> Any:
    """Return the function of kernels that makes a pointer to numbers of a type of Numba, for `carray`, of an address."""

    def build(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), codegen  # type: ignore[no-untyped-call]

    return _instruction(build)


@_instruction
def byte_at(typingctx: Any, address: Any, position: Any) -> Any:
    """The byte at a position behind an address: int64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_place(builder, args[0], args[1], _BYTE), align=1), _WORD)

    return types.int64(types.int64, types.int64), codegen


@_instruction
def eight_at(typingctx: Any, address: Any, position: Any) -> Any:
    """The eight bytes from a position behind an address on, the first of them lowest: uint64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(builder, args[0], args[1], _WORD), align=1)

    return types.uint64(types.int64, types.int64), codegen


@_instruction
def put_eight(typingctx: Any, address: Any, position: Any, word: Any) -> Any:
    """Write what `eight_at` reads."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(builder, args[0], args[1], _WORD), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint64), codegen


@_instruction
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask for the cache line at an address, which will be read soon; an address that cannot be read does no harm."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = ir.IntType(32)
        pointer = _BYTE.as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(args[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@_instruction
def word_at(typingctx: Any, address: Any, index: Any) -> Any:
    """The int64 at an index behind an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = builder.shl(args[1], ir.Constant(_WORD, 3))
        return builder.load(_place(builder, args[0], offset, _WORD), align=8)

    return types.int64(types.int64, types.int64), codegen


@_instruction
def put_word(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Write an int64 at an index behind an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        offset = builder.shl(args[1], ir.Constant(_WORD, 3))
        builder.store(args[2], _place(builder, args[0], offset, _WORD), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@_instruction
def put_byte(typingctx: Any, address: Any, position: Any, byte: Any) -> Any:
    """Write the low 8 bits of an int64 at a position behind an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(builder.trunc(args[2], _BYTE), _place(builder, args[0], args[1], _BYTE), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _copying(count: int) -> Callable[..., Any]:
    """Make the code that copies so many bytes at once; they are read before the first is written."""
    several = ir.VectorType(_BYTE, count)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(builder.inttoptr(args[1], several.as_pointer()), align=1)
        builder.store(found, builder.inttoptr(args[0], several.as_pointer()), align=1)
        return context.get_dummy_value()

    return codegen


@_instruction
def copy_8(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy 8 bytes from an address to another."""
    return types.void(types.int64, types.int64), _copying(8)


@_instruction
def copy_16(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy 16 bytes from an address to another."""
    return types.void(types.int64, types.int64), _copying(16)


@_instruction
def bits_equal(typingctx: Any, address: Any, position: Any, byte: Any, ignored: Any) -> Any:
    """Bit i is set where (the byte at position + i) | ignored == byte, for 64 bytes: uint64; byte, ignored: uint8."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.or_(_loaded(builder, *args[:2]), _splat(builder, args[3]))
        return builder.bitcast(builder.icmp_unsigned("==", found, _splat(builder, args[2])), _WORD)

    return types.uint64(types.int64, types.int64, types.uint8, types.uint8), codegen


@_instruction
def bits_at_most(typingctx: Any, address: Any, position: Any, byte: Any) -> Any:
    """Bit i is set where the byte at position + i <= byte, for 64 bytes: uint64; byte: uint8."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _loaded(builder, *args[:2])
        return builder.bitcast(builder.icmp_unsigned("<=", found, _splat(builder, args[2])), _WORD)

    return types.uint64(types.int64, types.int64, types.uint8), codegen


@_instruction
def trailing_zeros(typingctx: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set, 64 for none: int64; bits: uint64."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen
