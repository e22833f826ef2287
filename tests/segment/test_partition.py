"""Partition functions against constants computed by independent implementations and Java's own tests."""

import math
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.functions.vector import Vector
from gamay.model.index.indexing import column_values
from gamay.model.types import DataType
from gamay.segment.encode.partition import partition_function, partition_info
from gamay.segment.encode.value_text import value_text, values_text

MODULO = [  # value, n=3, n=5, n=8, ABS n=5
    ("0", 0, 0, 0, 0),
    ("1", 1, 1, 1, 1),
    ("7", 1, 2, 7, 2),
    ("-1", 2, 4, 7, 1),
    ("-3", 0, 2, 5, 3),
    ("-7", 2, 3, 1, 2),
    ("42", 0, 2, 2, 2),
    ("-42", 0, 3, 6, 2),
    ("1234567890123", 0, 3, 3, 3),
    ("9223372036854775807", 1, 2, 7, 2),
    ("-9223372036854775808", 1, 2, 0, 3),
]
MURMUR2 = [
    ("", 275646681, 1, 1, 1),
    ("a", -1563381124, 4, 4, 4),
    ("abc", 479470107, 2, 3, 7),
    ("0", 971027396, 1, 4, 6),
    ("1", -1993445489, 4, 7, 9),
    ("-1", 1531782027, 2, 3, 7),
    ("42", 417700972, 2, 4, 2),
    ("1234567890", 1249327157, 2, 5, 7),
    ("hello", 2132663229, 4, 5, 9),
    ("Apache Pinot", 692327352, 2, 0, 2),
    ("ünïcødé", 2147241326, 1, 6, 6),
    ("日本語", 1431860170, 0, 2, 0),
    ("😀", 131881617, 2, 1, 7),
    ("testString", -534425817, 1, 7, 1),
    ("user_000001", 1236128188, 3, 4, 8),
    ("21", -973932308, 0, 4, 0),
    ("foobar", -790332482, 1, 6, 6),
    ("a-little-bit-long-string", -985981536, 2, 0, 2),
    ("a-little-bit-longer-string", -1486304829, 4, 3, 9),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 2, 5, 7),
]
MURMUR3 = [
    ("", 0, 0, 0, -537374393, -1811735039, 4, 1),
    ("a", 1009084850, 0, 2, 179038849, -1127638319, 4, 1),
    ("abc", -1277324294, 4, 2, 116462166, 531560167, 2, 7),
    ("0", -764297089, 4, 7, -1112785285, -473194025, 3, 7),
    ("1", -1810453357, 1, 3, -1070381761, -84874632, 1, 0),
    ("-1", 1908024458, 3, 2, 1243450971, 788928365, 0, 5),
    ("42", -1135041482, 1, 6, 1257848383, -700208339, 4, 5),
    ("1234567890", 839148365, 0, 5, 625701737, 236889552, 2, 0),
    ("hello", 613153351, 1, 7, 1461802374, -438922741, 2, 3),
    ("Apache Pinot", -1969955736, 2, 0, 1152820019, -1454024355, 3, 5),
    ("ünïcødé", -2084637834, 4, 6, -688109114, 934778849, 4, 1),
    ("日本語", -1515949417, 1, 7, -1126169451, 1157773477, 2, 5),
    ("😀", -1095487750, 3, 2, -797724536, -2003968415, 3, 1),
    ("testString", -1435605585, 3, 7, -1755121104, -1096986291, 2, 5),
    ("user_000001", -305390274, 4, 6, -1117233811, -1187703060, 3, 4),
    ("the quick brown fox jumps over the lazy dog", 48128767, 2, 7, 1687611157, -437491214, 4, 2),
]
JAVA = [
    ("", 0, 0, 0, 1, 1, 1),
    ("a", 97, 2, 1, 128, 3, 0),
    ("abc", 96354, 4, 2, 126145, 0, 1),
    ("0", 48, 3, 0, 79, 4, 7),
    ("1", 49, 4, 1, 80, 0, 0),
    ("-1", 1444, 4, 4, 2405, 0, 5),
    ("42", 1662, 2, 6, 2623, 3, 7),
    ("1234567890", -2054162789, 4, 5, 443853148, 3, 4),
    ("hello", 99162322, 2, 2, 127791473, 3, 1),
    ("Apache Pinot", 1274505448, 3, 0, 981102441, 1, 1),
    ("polygenelubricants", -2147483648, 0, 0, 1303011777, 2, 1),
    ("ünïcødé", -609219977, 2, 1, -2029182062, 2, 6),
    ("日本語", 25921943, 3, 7, 1243476185, 0, 1),
    ("😀", 1772899, 4, 3, 350296, 1, 0),
    ("testString", 1727748931, 1, 3, -69202428, 3, 4),
    ("user_000001", -2133010187, 2, 3, -2003927468, 3, 4),
]
FNV = [
    ("", -2128831035, 3, 5, -2128831035, 3, 5, -3750763034362895579, 4, -3750763034362895579, 4),
    ("a", -468965076, 2, 4, 84696446, 1, 6, -5808556873153909620, 3, -5808590958014384194, 4),
    ("abc", 440920331, 1, 3, 1134309195, 0, 3, -1792535898324117685, 3, -2820157060406071861, 2),
    ("0", 890022063, 3, 7, 84696367, 2, 7, -5808608550200435537, 1, -5808590958014384145, 3),
    ("1", 873244444, 4, 4, 84696366, 1, 6, -5808609649712063748, 0, -5808590958014384146, 2),
    ("-1", 348981803, 3, 3, 611759495, 0, 7, 562962081143836971, 1, 590704958541369351, 1),
    ("42", -2015132285, 3, 3, 494316163, 3, 3, 571532774284038691, 1, 590697261959971939, 4),
    ("1234567890", 1627973700, 0, 4, -497927534, 4, 2, 7156503584078541220, 0, 1126012111659584914, 4),
    ("hello", 1335831723, 3, 3, -1225100953, 0, 7, -6615550055289275125, 3, 8883723591023973575, 0),
    ("Apache Pinot", 1935850851, 1, 3, -2089637741, 2, 3, -3261072288021989245, 3, 6098907318022826995, 0),
    ("ünïcødé", 1536173984, 4, 0, -1214515410, 3, 6, 9216958171127846560, 0, 4090165029066327502, 2),
    ("日本語", -2141233945, 3, 7, -847858957, 1, 3, -1252314375984451705, 3, 6754750132552792403, 3),
    ("😀", 866293256, 1, 0, -33366982, 1, 2, -72331129952009592, 1, 6238255675639625306, 1),
    ("testString", 1781963064, 4, 0, 2102668634, 4, 2, 886614244633029176, 1, 6097117955497333882, 2),
    ("user_000001", 1327476172, 2, 4, -879661574, 4, 2, -3954324455896984116, 2, -3073748268978439974, 4),
]
MURMUR2_RAW = [
    ("00", 375494588, 4),
    ("ff", -311467685, 3),
    ("0102030405", 963186390, 6),
    ("deadbeef", 833564499, 3),
    ("7f80", -376099533, 3),
    ("ffffffffffffffff", 185950397, 5),
    ("00000000000000000000000000000001", 685660270, 6),
    ("d69fd5b8b4db12", -1044832774, 2),
]
MURMUR3_RAW = [
    ("00", 1364076727, 7, -1392490538, 6),
    ("ff", -43192051, 5, 544355476, 4),
    ("0102030405", -1567508024, 0, -908693619, 5),
    ("deadbeef", -13625526, 2, 1258163552, 0),
    ("7f80", -1728129801, 7, 1110271868, 4),
    ("ffffffffffffffff", 1651860712, 0, -1931455838, 2),
    ("00000000000000000000000000000001", -1591321661, 3, 237980021, 5),
    ("d69fd5b8b4db12", 1255034832, 0, -1569442405, 3),
]
FNV_RAW = [
    ("00", 84696351, 7),
    ("ff", 2047574606, 6),
    ("0102030405", -1075497752, 0),
    ("deadbeef", 73223091, 3),
    ("7f80", -279278646, 2),
]

RANDOM_100 = [
    "d69fd5b8b4db12", "45f3e93169e33e", "67f8caaa74570c", "98e647c751fa95", "76115d9e4289b8",
    "fd48839f1afaaf", "40c19b3c53846b", "40ebba7c0762ac", "e92430ae8d9c58", "4a9c4886be117b",
]  # fmt: skip


def texts(values):
    return Vector(DataType.STRING, pa.array(list(values), pa.string()))


def check(name, config, rows, text_at, hash_at, partitions):
    """`partitions` maps a number of partitions to the place of the expected partition in a row."""
    for n, place in partitions.items():
        function = partition_function(name, n, config)
        for row in rows:
            if hash_at is not None:
                assert function.hash_of(row[text_at]) == row[hash_at], row
            assert function.partition_of(row[text_at]) == row[place], (row, n)
        found = function.partitions_of(texts(row[text_at] for row in rows))
        assert found.dtype == np.int32
        assert found.tolist() == [row[place] for row in rows]


def test_modulo():
    check("Modulo", {}, MODULO, 0, None, {3: 1, 5: 2, 8: 3})
    check("modulo", {"partitionIdNormalizer": "ABS"}, MODULO, 0, None, {5: 4})
    longs = Vector(DataType.LONG, np.array([int(row[0]) for row in MODULO]))
    assert partition_function("MODULO", 5).partitions_of(longs).tolist() == [row[2] for row in MODULO]
    with pytest.raises(ValueError, match="64-bit integers only"):
        partition_function("Modulo", 5).partition_of("1.5")


def test_murmur2():
    check("Murmur", {}, MURMUR2, 0, 1, {5: 2, 8: 3, 10: 4})
    check("murmur2", {"useRawBytes": "true"}, MURMUR2_RAW, 0, 1, {8: 2})


def test_murmur3():
    check("Murmur3", {}, MURMUR3, 0, 1, {5: 2, 8: 3})
    check("Murmur3", {"variant": "x64_32"}, MURMUR3, 0, 5, {5: 6, 8: 7})
    for row in MURMUR3:
        assert partition_function("Murmur3", 5, {"seed": "9001"}).hash_of(row[0]) == row[4]
    check("Murmur3", {"useRawBytes": "true"}, MURMUR3_RAW, 0, 1, {8: 2})
    check("Murmur3", {"useRawBytes": "true", "variant": "x64_32"}, MURMUR3_RAW, 0, 3, {8: 4})


def test_java_hashes():
    check("HashCode", {}, JAVA, 0, 1, {5: 2, 8: 3})
    check("ByteArray", {}, JAVA, 0, 4, {5: 5, 8: 6})


def test_fnv():
    check("FNV", {}, FNV, 0, 1, {5: 2, 8: 3})
    check("Fnv", {"variant": "fnv1_32"}, FNV, 0, 4, {5: 5, 8: 6})
    check("fnv", {"variant": "fnv1a_64"}, FNV, 0, 7, {5: 8})
    check("fnv", {"variant": "fnv1_64"}, FNV, 0, 9, {5: 10})
    check("fnv", {"useRawBytes": "true"}, FNV_RAW, 0, 1, {8: 2})


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("fnv1_32", "811c9dc5 050c5d7e 70772d38 439c2f4b"),
        ("fnv1a_32", "811c9dc5 e40c292c 4d2505ca 1a47e90b"),
        ("fnv1_64", "cbf29ce484222325 af63bd4c8601b7be 08326707b4eb37b8 d8dcca186bafadcb"),
        ("fnv1a_64", "cbf29ce484222325 af63dc4c8601ec8c 089c4407b545986a e71fa2190541574b"),
    ],
)
def test_fnv_published_constants(variant, expected):
    function = partition_function("FNV", 3, {"variant": variant})
    bits = int(variant.split("_")[1])
    assert [function.hash_of(t) % 2**bits for t in ("", "a", "ab", "abc")] == [int(x, 16) for x in expected.split()]


def test_bounded_column_value():
    config = {"columnValues": "Maths|english|Chemistry", "columnValuesDelimiter": "|"}
    function = partition_function("BoundedColumnValue", 4, config)
    values = ["maths", "Maths", "MATHS", "English", "english", "Chemistry", "chemistry", "Physics", "", "Maths "]
    assert function.partitions_of(texts(values)).tolist() == [1, 1, 1, 2, 2, 3, 3, 0, 0, 0]
    several = partition_function("boundedcolumnvalue", 4, {"columnValues": "a;|b||c", "columnValuesDelimiter": "|;"})
    assert several.partitions_of(texts("abcd")).tolist() == [1, 2, 3, 0]
    with pytest.raises(InvalidConfigError, match="expected 4"):
        partition_function("BoundedColumnValue", 3, config)
    with pytest.raises(InvalidConfigError, match="needs columnValuesDelimiter"):
        partition_function("BoundedColumnValue", 3, {"columnValues": "a|b"})


def test_hashes_of_java_random_bytes():
    def raw_hashes(name, **config):
        function = partition_function(name, 5, {"useRawBytes": "true", **config})
        return [function.hash_of(text) for text in RANDOM_100]

    assert raw_hashes("Murmur") == [
        -1044832774, -594851693, 1441878663, 1766739604, 1034724141,
        -296671913, 443511156, 1483601453, 1819695080, -931669296,
    ]  # fmt: skip
    assert raw_hashes("Murmur3") == [
        1255034832, -395463542, 659973067, 1070436837, -1193041642,
        -1412829846, -483463488, -1385092001, 568671606, -807299446,
    ]  # fmt: skip
    assert raw_hashes("Murmur3", seed="9001") == [
        -590969347, -315366997, 1642137565, -1732240651, -597560989,
        -1430018124, -448506674, 410998174, -1912106487, -19253806,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("Murmur", {}, "1 4 4 1 1 2 0 4 2 3"),
        ("Murmur3", {}, "4 3 3 2 3 4 0 3 1 4"),
        ("Murmur3", {"seed": "9001"}, "2 1 3 2 2 1 1 4 4 2"),
        ("Murmur3", {"variant": "x64_32"}, "4 1 3 2 0 3 3 2 0 1"),
        ("Murmur3", {"variant": "x64_32", "seed": "9001"}, "2 1 4 2 2 2 2 1 3 3"),
        ("ByteArray", {}, "1 3 2 0 0 4 4 1 2 4"),
    ],
)
def test_partitions_of_java_random_texts(name, config, expected):
    strings = [bytes.fromhex(text).decode("utf-8", "replace") for text in RANDOM_100]
    assert partition_function(name, 5, config).partitions_of(texts(strings)).tolist() == list(map(int, expected.split()))


def test_x64_hashes_of_java_random_texts():
    strings = [bytes.fromhex(text).decode("utf-8", "replace") for text in RANDOM_100]
    expected = {
        "0": [-930531654, 1010637996, -1251084035, -1551293561, 1591443335,
              181872103, 1308755538, -432310401, -701537488, 674867586],
        "9001": [1558697417, 933581816, 1071120824, 1964512897, 1629803052,
                 2037246152, -1867319466, -1003065762, -275998120, 1386652858],
    }  # fmt: skip
    for seed, hashes in expected.items():
        function = partition_function("Murmur3", 5, {"variant": "x64_32", "seed": seed})
        assert [function.hash_of(text) for text in strings] == hashes


@pytest.mark.parametrize(
    ("normalizer", "expected"), [("POSITIVE_MODULO", 3), ("ABS", 2), ("PRE_MODULO_ABS", 2), ("no_op", -7)]
)
def test_normalizers(normalizer, expected):
    assert partition_function("Modulo", 5, {"partitionIdNormalizer": normalizer}).partition_of("-7") == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (-468965076 & 0x7FFFFFFF) % 5),
        ({"negativePartitionHandling": "mask"}, (-468965076 & 0x7FFFFFFF) % 5),
        ({"negativePartitionHandling": "abs"}, 468965076 % 5),
    ],
)
def test_older_name_of_what_fnv_does_with_negative_hashes(config, expected):
    assert partition_function("FNV", 5, config).partition_of("a") == expected


def test_mask_of_a_negative_32_bit_hash():
    function = partition_function("Murmur", 5)
    negative = next(row for row in MURMUR2 if row[1] < 0)
    assert function.partition_of(negative[0]) == (negative[1] & 0x7FFFFFFF) % 5


@pytest.mark.parametrize(
    ("name", "n", "config", "message"),
    [
        ("Murmer", 5, {}, "Did you mean 'Murmur'"),
        ("Murmur", 0, {}, "expected at least 1"),
        ("Murmur3", 5, {"variant": "x86"}, "expected one of x86_32, x64_32"),
        ("Murmur3", 5, {"seed": "x"}, "not an integer"),
        ("Murmur", 5, {"partitionIdNormalizer": "MASQ"}, "Did you mean 'MASK'"),
    ],
)
def test_bad_config_names_what_is_right(name, n, config, message):
    with pytest.raises(InvalidConfigError, match=message):
        partition_function(name, n, config)


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (1, DataType.INT, "1"),
        (1.0, DataType.DOUBLE, "1.0"),
        (1e10, DataType.DOUBLE, "1.0E10"),
        (9999999.0, DataType.DOUBLE, "9999999.0"),
        (1e7, DataType.DOUBLE, "1.0E7"),
        (0.001, DataType.DOUBLE, "0.001"),
        (0.00099, DataType.DOUBLE, "9.9E-4"),
        (-123.456, DataType.DOUBLE, "-123.456"),
        (0.1, DataType.FLOAT, "0.1"),
        (1.1e12, DataType.FLOAT, "1.1E12"),
        (math.inf, DataType.DOUBLE, "Infinity"),
        (-math.inf, DataType.FLOAT, "-Infinity"),
        (math.nan, DataType.DOUBLE, "NaN"),
        (-0.0, DataType.DOUBLE, "-0.0"),
        (Decimal("1E+3"), DataType.BIG_DECIMAL, "1000"),
        (Decimal("-7.50"), DataType.BIG_DECIMAL, "-7.5"),
        (Decimal("-0.00"), DataType.BIG_DECIMAL, "0"),
        (b"\xde\xad", DataType.BYTES, "dead"),
        (bytes(16), DataType.UUID, "00000000-0000-0000-0000-000000000000"),
        (True, DataType.BOOLEAN, "1"),
        (1357034400000, DataType.TIMESTAMP, "1357034400000"),
        ("ünï", DataType.STRING, "ünï"),
    ],
)
def test_text_of_one_value_and_of_many(value, data_type, text):
    assert value_text(value, data_type) == text
    if data_type.is_fixed_width:
        dtypes = {DataType.INT: np.int32, DataType.FLOAT: np.float32, DataType.BOOLEAN: np.bool_}
        stored = np.array([value], dtypes.get(data_type))
    elif data_type is DataType.BIG_DECIMAL:
        stored = np.array([value], object)
    else:
        stored = pa.array([value], pa.string() if data_type.is_text else pa.binary())
    assert values_text(Vector(data_type, stored)).to_pylist() == [text]


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.text()), st.integers(1, 1000))
def test_partitions_lie_in_range_and_agree_one_by_one(values, n):
    for name in ("Murmur", "Murmur3", "FNV", "HashCode", "ByteArray"):
        function = partition_function(name, n)
        found = function.partitions_of(texts(values)).tolist()
        assert found == [function.partition_of(value) for value in values]
        assert all(0 <= partition < n for partition in found)


@settings(deadline=None)  # the first call compiles
@given(st.text())
def test_hash_code_is_that_of_utf16_units(text):
    units = np.frombuffer(text.encode("utf-16-le"), np.uint16).tolist()
    h = 0
    for unit in units:
        h = (31 * h + unit) & 0xFFFFFFFF
    assert partition_function("HashCode", 7).hash_of(text) == (h ^ 0x80000000) - 0x80000000


def test_partition_info_lists_what_occurs():
    info = partition_info(partition_function("Modulo", 4), Vector(DataType.INT, np.array([1, 5, 7], np.int32)))
    assert (info.function_name, info.num_partitions, info.partitions) == ("Modulo", 4, (1, 3))


def test_raw_bytes_of_a_bytes_column_are_hashed_without_a_detour():
    values = [bytes.fromhex(row[0]) for row in MURMUR2_RAW]
    vector = Vector(DataType.BYTES, pa.array(values, pa.binary()))
    function = partition_function("Murmur", 8, {"useRawBytes": "true"})
    assert function.partitions_of(vector).tolist() == [row[2] for row in MURMUR2_RAW]
    hex_of_bytes = partition_function("Murmur", 8).partitions_of(vector).tolist()
    assert hex_of_bytes == [partition_function("Murmur", 8).partition_of(value.hex()) for value in values]


def test_only_hashes_of_bytes_take_raw_ones():
    for name in ("HashCode", "ByteArray"):
        for text in ("00ff", "no hexadecimal"):
            assert partition_function(name, 7, {"useRawBytes": "true"}).hash_of(text) == partition_function(name, 7).hash_of(
                text
            )


def test_raw_bytes_of_uuids_and_of_what_is_no_hexadecimal_text():
    value = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
    for name in ("Murmur", "Murmur3", "FNV"):
        function = partition_function(name, 97, {"useRawBytes": "true"})
        stored = Vector(DataType.UUID, pa.array([value.bytes], pa.binary()))
        assert function.partitions_of(stored).tolist() == [function.partition_of(value.bytes.hex())]
        assert function.partition_of(value_text(value.bytes, DataType.UUID)) == function.partition_of(value.bytes.hex())
        with pytest.raises(ValueError, match="'zz' is not hexadecimal"):
            function.partition_of("zz")


@pytest.mark.parametrize(("values", "delimiter"), [("Maths|english|Chemistry", "|"), (",Maths, english,,Chemistry ", ", ")])
def test_every_character_of_a_delimiter_separates(values, delimiter):
    config = {"columnValues": values, "columnValuesDelimiter": delimiter}
    function = partition_function("BoundedColumnValue", 4, config)
    assert [function.partition_of(text) for text in ("maths", "English", "CHEMISTRY", "Physics", "")] == [1, 2, 3, 0, 0]
    assert column_values(values, delimiter) == ["Maths", "english", "Chemistry"]
