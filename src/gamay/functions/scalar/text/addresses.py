"""IP addresses and networks as text: `10.1.2.3`, `2001:db8::1`, `10.0.0.0/8`.

Invalid text is an error, except in isIPv4String and isIPv6String, which return false.
"""

import ipaddress
from typing import Any

from gamay.functions.scalar.define import by_value, each, scalar
from gamay.functions.scalar.values import lists_of_distinct
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, BYTES, INT, LONG, BOOLEAN = DataType.STRING, DataType.BYTES, DataType.INT, DataType.LONG, DataType.BOOLEAN

_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
        "::1/128",
    )
)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the network of `10.1.2.3/8` (host bits are ignored) or of one address."""
    return ipaddress.ip_network(text.strip(), strict=False)


def _is_inside(network: Any, other: Any) -> bool:
    return bool(network.version == other.version and other.subnet_of(network))


@by_value("isSubnetOf", params=(STRING, STRING), returns=BOOLEAN)
def is_subnet_of(network: str, address: str) -> bool:
    """Whether an address, or a whole network, is within a network."""
    return _is_inside(_network(network), _network(address))


@by_value("ipPrefix", params=(STRING, INT), returns=STRING)
def ip_prefix(address: str, bits: int) -> str:
    """The network of the first bits of an address."""
    return str(_network(f"{ipaddress.ip_address(address)}/{bits}"))


@by_value("ipSubnetMin", params=(STRING,), returns=STRING)
def ip_subnet_min(network: str) -> str:
    return str(_network(network)[0])


@by_value("ipSubnetMax", params=(STRING,), returns=STRING)
def ip_subnet_max(network: str) -> str:
    return str(_network(network)[-1])


def _range(text: str) -> list[str]:
    network = ipaddress.IPv4Network(text, strict=False)
    return [str(network[0]), str(network[-1])]


@scalar("ipv4CIDRToRange", params=(each(STRING),), returns=STRING, multi_value=True)
def ipv4_cidr_to_range(network: Any) -> Vector:
    """The first and the last address of a network."""
    return lists_of_distinct("ipv4CIDRToRange", Vector(STRING, network), _range, STRING)


@by_value("ipFamily", params=(STRING,), returns=INT)
def ip_family(address: str) -> int:
    """4 or 6."""
    return _network(address).version


@by_value("ipMaskLen", params=(STRING,), returns=INT)
def ip_mask_len(network: str) -> int:
    """The length of a network's prefix in bits; all bits for a single address."""
    return _network(network).prefixlen


@by_value("ipNetmask", params=(STRING,), returns=STRING)
def ip_netmask(network: str) -> str:
    return str(_network(network).netmask)


@by_value("ipHostmask", params=(STRING,), returns=STRING)
def ip_hostmask(network: str) -> str:
    return str(_network(network).hostmask)


@by_value("isPrivateIp", params=(STRING,), returns=BOOLEAN)
def is_private_ip(address: str) -> bool:
    """Whether an address is private (RFC 1918, fc00::/7), a loopback or link-local one."""
    given = _network(str(ipaddress.ip_address(address)))
    return any(_is_inside(network, given) for network in _PRIVATE)


def _is_address(text: str, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


@by_value("isIPv4String", params=(STRING,), returns=BOOLEAN)
def is_ipv4_string(text: str) -> bool:
    return _is_address(text, ipaddress.IPv4Address)


@by_value("isIPv6String", params=(STRING,), returns=BOOLEAN)
def is_ipv6_string(text: str) -> bool:
    return _is_address(text, ipaddress.IPv6Address)


@by_value("ipv4ToLong", params=(STRING,), returns=LONG)
def ipv4_to_long(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


@by_value("longToIpv4", params=(LONG,), returns=STRING)
def long_to_ipv4(number: int) -> str:
    return str(ipaddress.IPv4Address(number))


@by_value("ipv6ToBytes", params=(STRING,), returns=BYTES)
def ipv6_to_bytes(address: str) -> bytes:
    return ipaddress.IPv6Address(address).packed


@by_value("bytesToIpv6", params=(BYTES,), returns=STRING)
def bytes_to_ipv6(value: bytes) -> str:
    return str(ipaddress.IPv6Address(value))


@by_value("ipv4ToIpv6", params=(STRING,), returns=STRING)
def ipv4_to_ipv6(address: str) -> str:
    """The address mapped into IPv6: `::ffff:10.1.2.3`."""
    return f"::ffff:{ipaddress.IPv4Address(address)}"
