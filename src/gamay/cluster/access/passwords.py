"""Stored passwords (scrypt hashes, RFC 7914) and passwords in requests (HTTP basic authentication)."""

import base64
import hashlib
import hmac
import os

# 8 MiB and about 20 ms per hash
_COST, _BLOCK, _PARALLEL = 1 << 13, 8, 1
_COST_MAX = 1 << 17
_SCHEME = "scrypt"


def hashed_password(password: str, salt: bytes | None = None) -> str:
    """Return the hash of a password for storage: `scrypt$n$r$p$salt$hash`, the last two in base64."""
    chosen = os.urandom(16) if salt is None else salt
    made = hashlib.scrypt(password.encode(), salt=chosen, n=_COST, r=_BLOCK, p=_PARALLEL)
    return f"{_SCHEME}${_COST}${_BLOCK}${_PARALLEL}${_base64(chosen)}${_base64(made)}"


def is_hash(text: str) -> bool:
    """Whether a text is a hash that `matches` can read."""
    scheme, *numbers = text.split("$")
    if scheme != _SCHEME or len(numbers) != 5 or not all(number.isdecimal() for number in numbers[:3]):
        return False
    try:
        salt, made = (base64.b64decode(part, validate=True) for part in numbers[3:])
    except ValueError:
        return False
    return bool(salt and made) and int(numbers[0]) <= _COST_MAX and int(numbers[1]) == _BLOCK and int(numbers[2]) <= 4


def matches(password: str, hashed: str) -> bool:
    """Whether a password matches a hash; False for another program's hash, so such a password has to be set again."""
    if not is_hash(hashed):
        return False
    _, cost, block, parallel, salt, wanted = hashed.split("$")
    given = password.encode("utf-8", "surrogateescape")
    made = hashlib.scrypt(given, salt=base64.b64decode(salt), n=int(cost), r=int(block), p=int(parallel))
    return hmac.compare_digest(made, base64.b64decode(wanted))


def basic_token(name: str, password: str) -> str:
    """Return the `Authorization` header of a name and a password."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape")).decode()


def credentials(authorization: str) -> tuple[str, str]:
    """Return name and password of a basic authentication header (scheme in any case); both empty for any other header."""
    scheme, _, token = authorization.strip().partition(" ")
    try:
        text = base64.b64decode(token.strip(), validate=True).decode() if scheme.lower() == "basic" else ""
    except ValueError:
        text = ""
    name, _, password = text.partition(":")
    return name, password


def digest(authorization: str) -> bytes:
    """Return the cache key of a verified header. Verified headers are cached because password hashes are slow by
    design."""
    return hashlib.sha256(authorization.strip().encode("utf-8", "surrogateescape")).digest()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


# matches no password: an unknown user takes as long to refuse as a known one
NO_HASH = f"{_SCHEME}${_COST}${_BLOCK}${_PARALLEL}${_base64(bytes(16))}${_base64(bytes(64))}"
