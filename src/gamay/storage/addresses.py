"""Checks that addresses are public, rather than of this machine, its network, or a provider's metadata service."""

import ipaddress
import socket

from gamay.base.errors import InvalidConfigError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def check_public(host: str) -> None:
    """Raise InvalidConfigError if a host has an address that is not public; OSError if it has none."""
    for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
        check_public_address(str(address[0]), host)


def check_public_address(address: str, host: str) -> None:
    """Raise InvalidConfigError for an address of this machine, its network or a provider's metadata service."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else found.ipv4_mapped or found.sixtofour
        found = inner or found
    if not found.is_global or found.is_multicast:
        raise InvalidConfigError(
            f"Unsupported URI: {host} has the address {address}, which is not public; have the operator name this "
            "host in gamay.ingest.allowed_uris"
        )
