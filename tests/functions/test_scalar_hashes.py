"""Hash functions against published test vectors and those of the reference."""

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate
from gamay.functions.scalar.hash import hashes
from gamay.functions.vector import Scalar, Vector
from gamay.kernels.hash import city
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

_K0 = 0xC3A5C85C97CB3127
_MASK = (1 << 64) - 1


def constant(text: str) -> Any:
    result = evaluate(parse_expression(text), _no_column, 1)
    assert isinstance(result, Scalar)
    return result.value


def _no_column(name: str) -> Any:
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # section 7 of the reference
        ("murmurHash2('hello')", 2132663229),
        ("murmur2('ünïcødé')", 2147241326),
        ("murmurHash2UTF8('😀')", 131881617),
        ("murmurHash2(hexToBytes('deadbeef'))", 833564499),
        ("murmurHash2Bit64('testString')", 3907736674355139845),
        ("murmurHash3Bit32('the quick brown fox jumps over the lazy dog', 9001)", 1687611157),
        ("murmurHash3Bit32('', 9001)", -537374393),
        ("murmur3_32('abc')", -1277324294),
        ("murmurHash3X64Bit32('ünïcødé', 0)", 934778849),
        ("murmurHash3X64Bit64('ünïcødé', 0)", 934778849),
        ("fnv1aHash32('日本語')", -2141233945),
        ("fnv1aHash32UTF8('a')", -468965076),
        ("fnv1Hash32('abc')", 1134309195),
        ("fnv1aHash64('user_000001')", -3954324455896984116),
        ("fnv1_64('-1')", 590704958541369351),
        # MurmurHash3_x64_128, as SMHasher, Guava and mmh3 give it
        ("murmurHash3Bit128('The quick brown fox jumps over the lazy dog', 0)", "6c1b07bc7bbc4be347939ac4a93c437a"),
        ("murmurHash3Bit64('hello', 0)", 0xCBD8A7B341BD9B02 - (1 << 64)),
        ("murmurHash3Bit128('', 0)", "00" * 16),
        # RFC 3720 (CRC-32C), RFC 1319 (MD2), RFC 1321
        ("crc32c('123456789')", 0xE3069283 - (1 << 32)),
        ("crc32c(hexToBytes('" + "00" * 32 + "'))", 0x8A9136AA - (1 << 32)),
        ("crc32c(hexToBytes('" + "ff" * 32 + "'))", 0x62A8AB43),
        ("md2('')", "8350e5a3e24c153df2275c9f80692773"),
        ("md2('abc')", "da853b0d3f88d99b30283a69e6ded6bb"),
        ("md2('message digest')", "ab4f496bfb2a530b219ff33031fe06b0"),
        ("md5('abc')", "900150983cd24fb0d6963f7d28e17f72"),
        ("adler32('Wikipedia')", 0x11E60398),
        # CityHash v1.1
        ("cityHash64('hello')", 0xB48BE5A931380CE8 - (1 << 64)),
        ("cityHash32('hello')", 0x79969366),
        ("cityHash128('hello')", "6f72e4abb491a74a65148f580b45f347"),
        ("cityHash64(repeat('Hello World!', 40))", 9211247178963271761),
        ("cityHash128(repeat('x', 127))", f"{9854593622914604095:016x}{7658912557002357630:016x}"),
        ("cityHash128(repeat('x', 128))", f"{7741783724626928635:016x}{8757048405738817313:016x}"),
        ("cityHash128(repeat('Hello World!', 400))", f"{14200190842850971771:016x}{4403965390540562629:016x}"),
    ],
)
def test_known_vectors(text: str, expected: int | str) -> None:
    value = constant(text)
    assert (value.hex() if isinstance(value, bytes) else value) == expected


def _city_data(size: int) -> bytes:
    """The bytes on which CityHash's own test vectors are computed."""
    a, b = 9, 777
    out = bytearray()
    for i in range(size):
        a = (a + b) & _MASK
        b = (b + a) & _MASK
        a = ((a ^ (a >> 41)) * _K0) & _MASK
        b = (((b ^ (b >> 41)) * _K0) + i) & _MASK
        out.append((b >> 37) & 0xFF)
    return bytes(out)


_CITY = [
    # length (the string begins at its square): 64 bits; with one seed; with two; 32 bits; 128 bits, lower and upper half
    (0, 0x9AE16A3B2F90404F, 0x75106DB890237A4A, 0x3FEAC5F636039766, 0xDC56D17A, 0x3DF09DFC64C09A2B, 0x3CB540C392E51E29),
    (4, 0x11DF592596F41D88, 0x843EC0BCE9042F9C, 0xCCE2EA1E08B1EB30, 0x26F2B463, 0x4D09E42F09CC3495, 0x666236631B9F253B),
    (5, 0x831F448BDC5600B3, 0x62A24BE3120A6919, 0x1B44098A41E010DA, 0xB042C047, 0xDC07DF53B949C6B, 0xD2B11B2081AEB002),
    (12, 0xE3F6828B6017086D, 0x21B4D1900554B3B0, 0xBEF38BE1809E24F1, 0x894A52EF, 0xD93251758985EE6C, 0x32A9E9F82BA2A932),
    (13, 0x851FFF285561DCA0, 0x4D1277D73CDF416F, 0x28CCFFA61010EBE2, 0x9CDE6A54, 0x77A4CCACD131D9EE, 0xE1D08EEB2F0E29AA),
    (17, 0x6ABBFDE37EE03B5B, 0x83FEBF188D2CC113, 0xCDA7B62D94D5B8EE, 0xB6B06E40, 0xA4375590B8AE7C82, 0x168FD42F9ECAE4FF),
    (25, 0xDC78CB032C49217, 0x112464083F83E03A, 0x96AE53E28170C0F5, 0x7C6FFFE4, 0xD367FF54952A958, 0xCDAD930657371147),
    (34, 0x5E1141711D2D6706, 0xB537F6DEE8DE6933, 0x3AF0A1FBBE027C54, 0x26FA72E3, 0xEA349DBC16C2E441, 0x38A7455B6A877547),
    (64, 0xE88419922B87176F, 0xBCF32F41A7DDBF6F, 0xD6EBEFD8085C1A0F, 0x9C9CFE88, 0xD1D44FE99451EF72, 0xEC951BA8E51E3545),
    (65, 0x105191E0EC8F7F60, 0x5918DBFCCA971E79, 0x6B285C8A944767B9, 0xB70A6DDD, 0xD3E86AC4F5ECCFA4, 0xE5399DF2B106CA1),
    (92, 0xB98FB0606F416754, 0x46A6E5547BA99C1E, 0xC909D82112A8ED2, 0xF7D69572, 0xDBFAAE9642B3205A, 0xF676A1339402BCB9),
    (178, 0x5E29BE847BD5046, 0xB561C7F19C8F80C3, 0x5E5ABD5021CCAEAF, 0x4F4B04E9, None, None),
]


def test_city_hash_agrees_with_the_vectors_of_its_authors() -> None:
    data = _city_data(178 * 179)
    strings = [data[n * n : n * n + n] for n, *_ in _CITY]
    offsets = np.cumsum([0, *map(len, strings)]).astype(np.int32)
    joined = np.frombuffer(b"".join(strings), np.uint8)
    outs = [np.empty(len(strings), np.uint64) for _ in range(5)]
    city.city64(joined, offsets, outs[0])
    city.city64_seeded(joined, offsets, np.uint64(0x9AE16A3B2F90404F), np.uint64(1234567), outs[1])
    city.city64_seeded(joined, offsets, np.uint64(1234567), np.uint64(_K0), outs[2])
    city.city128(joined, offsets, outs[3], outs[4])
    narrow = np.empty(len(strings), np.int64)
    city.city32(joined, offsets, narrow)
    for i, (_, *expected) in enumerate(_CITY):
        found = [int(out[i]) for out in outs]
        found.insert(3, int(narrow[i]) & 0xFFFFFFFF)
        assert [f for f, e in zip(found, expected, strict=True) if e is not None] == [e for e in expected if e is not None]


@given(st.lists(st.binary(max_size=70), max_size=5))
def test_digests_agree_with_the_standard_library(values: list[bytes]) -> None:
    column = Vector(DataType.BYTES, pa.array(values, pa.binary()))
    oracles: dict[str, Callable[[bytes], Any]] = {
        "sha": lambda v: hashlib.sha1(v, usedforsecurity=False).hexdigest(),
        "sha512": lambda v: hashlib.sha512(v).hexdigest(),
        "crc32": lambda v: zlib.crc32(v) - (1 << 32) * (zlib.crc32(v) >> 31),
        "adler32": lambda v: zlib.adler32(v) - (1 << 32) * (zlib.adler32(v) >> 31),
    }
    for name, oracle in oracles.items():
        result = evaluate(parse_expression(f"{name}(y)"), lambda _: column, len(values))
        assert isinstance(result, Vector)
        assert list(result.values.tolist()) == [oracle(v) for v in values]


def test_a_sliced_column_is_hashed_by_its_own_bytes() -> None:
    column = Vector(DataType.STRING, pa.array(["x", "hello", "", "abc"])[1:])
    assert hashes.murmur_hash2(column).tolist() == [2132663229, 275646681, 479470107]
    assert hashes.city_hash128(column).to_pylist()[0].hex() == "6f72e4abb491a74a65148f580b45f347"
    assert hashes.murmur_hash2(Vector(DataType.STRING, pa.array([], pa.string()))).tolist() == []


def test_numbers_are_hashed_as_their_text() -> None:
    column = Vector(DataType.INT, np.array([42, -1], np.int32))
    assert hashes.murmur_hash2(column).tolist() == [417700972, 1531782027]


@pytest.mark.parametrize("text", ["murmurHash3Bit32('a')", "cityHash64('a', 1, 2, 3)", "crc32c()"])
def test_wrong_arguments_are_refused(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        constant(text)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
