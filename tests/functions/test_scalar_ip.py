"""IP and UUID functions against the standard library."""

import ipaddress
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.scalar.text.uuids import random_uuids, timed_uuids
from gamay.functions.vector import Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

V1 = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
V7 = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"  # RFC 9562, appendix A.6


def run(text: str, values: list[Any] | None = None) -> Any:
    """Return a constant, or the results for a column `x` of texts or bytes."""
    values = [None] if values is None else values
    kind = DataType.BYTES if isinstance(values[0], bytes) else DataType.STRING
    column = Vector(kind, pa.array(values, pa.binary() if kind is DataType.BYTES else pa.string()))
    expression = parse_expression(text)
    result = evaluate(expression, lambda _: column, len(values))
    if isinstance(result, Scalar):
        return result.value
    assert isinstance(result, Vector)
    assert result_type(expression, lambda _: (kind, False)) == (result.type, result.is_multi_value)
    listed = result.values.tolist()
    if result.offsets is not None:
        return [listed[a:b] for a, b in zip(result.offsets[:-1], result.offsets[1:], strict=True)]
    return [None if result.nulls is not None and result.nulls[i] else v for i, v in enumerate(listed)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("isSubnetOf('10.0.0.0/8', '10.2.3.4')", True),
        ("isSubnetOf('10.0.0.0/8', '11.2.3.4')", False),
        ("isSubnetOf('10.0.0.0/8', '10.2.0.0/16')", True),
        ("isSubnetOf('10.2.0.0/16', '10.0.0.0/8')", False),
        ("isSubnetOf('10.0.0.0/8', '2001:db8::1')", False),
        ("isSubnetOf('2001:db8::/32', '2001:db8::1')", True),
        ("ipPrefix('10.1.2.3', 8)", "10.0.0.0/8"),
        ("ipPrefix('2001:db8:ffff::1', 33)", "2001:db8:8000::/33"),
        ("ipSubnetMin('192.168.5.77/26')", "192.168.5.64"),
        ("ipSubnetMax('192.168.5.77/26')", "192.168.5.127"),
        ("ipFamily('::1')", 6),
        ("ipFamily('1.2.3.4')", 4),
        ("ipMaskLen('10.0.0.0/8')", 8),
        ("ipMaskLen('::1')", 128),
        ("ipNetmask('10.0.0.0/9')", "255.128.0.0"),
        ("ipHostmask('10.0.0.0/9')", "0.127.255.255"),
        ("isPrivateIp('172.31.0.1')", True),
        ("isPrivateIp('172.32.0.1')", False),
        ("isPrivateIp('fd00::1')", True),
        ("isPrivateIp('8.8.8.8')", False),
        ("isPrivateIp('169.254.1.1')", True),
        ("isIPv4String('1.2.3.4')", True),
        ("isIPv4String('1.2.3')", False),
        ("isIPv6String('1.2.3.4')", False),
        ("isIPv6String('::ffff:1.2.3.4')", True),
        ("ipv4ToLong('255.255.255.255')", 2**32 - 1),
        ("longToIpv4(3232235777)", "192.168.1.1"),
        ("ipv6ToBytes('::1')", bytes(15) + b"\x01"),
        ("bytesToIpv6(ipv6ToBytes('2001:DB8:0:0::1'))", "2001:db8::1"),
        ("ipv4ToIpv6('10.1.2.3')", "::ffff:10.1.2.3"),
        # UUIDs
        (f"uuidVersion('{V1}')", 1),
        (f"uuidVersion(toUuid('{V7}'))", 7),
        (f"uuidTimestamp('{V7}')", 0x017F22E279B0),
        (f"uuidTimestamp(uuidToBytes('{V1}'))", 886630433151),
        (f"uuidToString(uuidToBytes('{V1.upper()}'))", V1),
        (f"fromUUIDBytes(toUUIDBytes('{V1}'))", V1),
        (f"uuidToString(bytesToUuid(toUUIDBytes('{V1}')))", V1),
        ("toUUIDBytes('garbage')", None),
        ("isUuid('garbage')", False),
        (f"isUuid('{V1}')", True),
        (f"isUuid('{V1.replace('-', '')}')", False),
        ("isUuid(hexToBytes('00'))", False),
        (f"isUuid(toUuid('{V1}'))", True),
    ],
)
def test_constants(text: str, expected: Any) -> None:
    assert run(text) == expected


@given(st.lists(st.ip_addresses(), min_size=1, max_size=4), st.integers(0, 32))
def test_columns_agree_with_ipaddress(addresses: list[Any], bits: int) -> None:
    texts = [str(address) for address in addresses]
    networks = [ipaddress.ip_network(f"{text}/{bits}", strict=False) for text in texts]
    assert run(f"ipPrefix(x, {bits})", texts) == [str(network) for network in networks]
    assert run("ipFamily(x)", texts) == [address.version for address in addresses]
    narrow = [text for text, address in zip(texts, addresses, strict=True) if address.version == 4]
    if narrow:
        assert run(f"ipv4CIDRToRange(concat(x, '/{bits}'))", narrow) == [
            [str(network[0]), str(network[-1])] for network in networks if network.version == 4
        ]


@pytest.mark.parametrize(
    "text",
    [
        "isSubnetOf('x', '1.2.3.4')",
        "ipPrefix('1.2.3.4', 33)",
        "ipv4ToLong('::1')",
        "longToIpv4(-1)",
        "bytesToIpv6(hexToBytes('00'))",
        "isPrivateIp('')",
        "toUuid('garbage')",
        "uuidVersion(hexToBytes('00'))",
        "uuidTimestamp('6ba7b810-9dad-41d1-80b4-00c04fd430c8')",
        "isUuid(5)",
        "toUuid(1.5)",
        "toUUIDBytes(TRUE)",
    ],
)
def test_what_is_none_is_an_error(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(text)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


def test_errors_show_bytes_in_hexadecimal() -> None:
    for text in ("bytesToUuid(hexToBytes('00ff'))", "bytesToIpv6(hexToBytes('00ff'))"):
        with pytest.raises(QueryError, match=r"of \(?'00ff'\)?: "):
            run(text)
    with pytest.raises(QueryError, match=r"of \('6{80}\.\.\.'\): "):
        run(f"ST_AsText(hexToBytes('{'66' * 100}'))")


def test_uuids_of_bytes_and_text_columns() -> None:
    ids = [uuid.UUID(V1), uuid.UUID(V7)]
    assert run("uuidToString(x)", [value.bytes for value in ids]) == [V1, V7]
    assert run("toUuid(x)", [V1, V7]) == [value.bytes for value in ids]
    assert run("toUUIDBytes(x)", [V1, "?", V7]) == [ids[0].bytes, None, ids[1].bytes]


def test_new_uuids_are_made_of_time_and_randomness() -> None:
    random = bytes(range(256)) * 2
    made = [uuid.UUID(bytes=value) for value in random_uuids(random)]
    assert {value.version for value in made} == {4}
    assert {value.variant for value in made} == {uuid.RFC_4122}
    assert len(set(made)) == 16
    for value in timed_uuids(0x017F22E279B0, random):
        parsed = uuid.UUID(bytes=value)
        assert parsed.variant == uuid.RFC_4122
        assert value[6] >> 4 == 7
        assert parsed.int >> 80 == 0x017F22E279B0


@pytest.mark.parametrize("name", ["uuidV4", "uuidV7"])
def test_every_row_gets_a_uuid_of_its_own(name: str) -> None:
    expression = parse_expression(f"{name}()")
    result = evaluate(expression, lambda _: Vector(DataType.INT, np.zeros(3, np.int32)), 3)
    assert isinstance(result, Vector)
    assert result.type is DataType.UUID
    assert len(set(result.values.to_pylist())) == 3
    assert parse_expression(f"{name}()") == expression  # a call, not what one call gave
