"""Authentication to ZooKeeper and encryption of the connection, as arguments of kazoo's client.

ZooKeeper has two ways to authenticate a client: its scheme `digest`, a user and password that each session sends, and
SASL, for which the server has a list of users (DIGEST-MD5, the `Server` section of its JAAS file) or asks Kerberos (GSSAPI).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest
from gamay.base.tls import TlsSettings, read_tls

DIGEST_MD5 = "DIGEST-MD5"
KERBEROS = "GSSAPI"

_PREFIX = "zookeeper."
_TLS = f"{_PREFIX}tls"
_DIGEST = f"{_PREFIX}auth.digest"
_SASL = f"{_PREFIX}sasl."
LOGIN_PREFIXES = (f"{_TLS}.", _DIGEST, _SASL)
"""The prefixes of the keys that `read_login` reads."""
_SASL_KEYS = ("mechanism", "username", "password", "service", "principal")
_PACKAGES = {DIGEST_MD5: (("puresasl", "pure-sasl"),), KERBEROS: (("puresasl", "pure-sasl"), ("kerberos", "kerberos"))}


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """mechanism: DIGEST-MD5 with username and password, or GSSAPI with the ticket of `kinit`.

    service: the first part of the principal of ZooKeeper's servers. principal: for GSSAPI, whose ticket to use; empty for
    the cache's.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    service: str = "zookeeper"
    principal: str = ""

    def options(self) -> dict[str, str]:
        """Return kazoo's `sasl_options`. Raises InvalidConfigError when something is missing, also a package."""
        if self.mechanism not in _PACKAGES:
            raise InvalidConfigError(
                f"'{self.mechanism}' is no SASL mechanism that is known here; it may be {DIGEST_MD5} or {KERBEROS}"
            )
        for module, package in _PACKAGES[self.mechanism]:
            if find_spec(module) is None:
                raise InvalidConfigError(
                    f"SASL {self.mechanism} with ZooKeeper needs the package '{package}': pip install {package}"
                )
        if self.mechanism == KERBEROS:
            return {"mechanism": KERBEROS, "service": self.service} | (
                {"principal": self.principal} if self.principal else {}
            )
        if not self.username or not self.password:
            raise InvalidConfigError(f"SASL {DIGEST_MD5} with ZooKeeper needs a user name and a password")
        return {
            "mechanism": DIGEST_MD5,
            "service": self.service,
            "username": self.username,
            "password": self.password,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperLogin:
    """tls: None for no encryption. digest: `USER:PASSWORD` of ZooKeeper's scheme of that name; empty for anonymous."""

    tls: TlsSettings | None = None
    digest: str = field(default="", repr=False)
    sasl: SaslSettings | None = None

    @property
    def has_identity(self) -> bool:
        """Whether this process authenticates to ZooKeeper, so that it can restrict access to the nodes that it writes."""
        return bool(self.digest) or self.sasl is not None

    def kazoo_options(self) -> dict[str, Any]:
        """Return arguments of kazoo's client. Raises InvalidConfigError, whose message never contains a password."""
        options: dict[str, Any] = {}
        if self.tls is not None:
            options |= _tls_options(self.tls)
        if self.digest:
            user, _, password = self.digest.partition(":")
            if not user or not password:
                raise InvalidConfigError("what ZooKeeper knows this process by must look like USER:PASSWORD")
            options["auth_data"] = [("digest", self.digest)]
        if self.sasl is not None:
            options["sasl_options"] = self.sasl.options()
        return options


ANYBODY = ZooKeeperLogin()


def _tls_options(tls: TlsSettings) -> dict[str, Any]:
    tls.client_context()  # raises with a message that names the unusable file
    return {
        "use_ssl": True,
        "verify_certs": not tls.insecure,
        "check_hostname": not tls.insecure,
        "ca": None if tls.authorities is None else str(tls.authorities),
        "certfile": None if tls.certificate is None else str(tls.certificate),
        "keyfile": str(tls.key or tls.certificate) if tls.certificate is not None else None,
        "keyfile_password": tls.key_password or None,
    }


def login_keys(properties: Mapping[str, str]) -> set[str]:
    """Return the keys of a properties file that `read_login` reads."""
    return {key for key in properties if key.startswith(LOGIN_PREFIXES)}


def read_login(properties: Mapping[str, str]) -> ZooKeeperLogin:
    """Read `zookeeper.tls.*`, `zookeeper.auth.digest` and `zookeeper.sasl.*`. Raises InvalidConfigError."""
    given = {key.removeprefix(_SASL): text.strip() for key, text in properties.items() if key.startswith(_SASL)}
    for key in given:
        if key not in _SASL_KEYS:
            raise InvalidConfigError(f"'{_SASL}{key}' means nothing.{nearest(key, _SASL_KEYS)}")
    if given and "mechanism" not in given:
        raise InvalidConfigError(f"'{_SASL}mechanism' is missing: {DIGEST_MD5} or {KERBEROS}")
    return ZooKeeperLogin(
        tls=read_tls(_TLS, properties),
        digest=properties.get(_DIGEST, ""),
        sasl=SaslSettings(**given) if given else None,
    )
