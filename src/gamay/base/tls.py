"""TLS of listeners and of outgoing connections: certificates in PEM files."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gamay.base.errors import InvalidConfigError, nearest

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_KEYS = (
    "certificate.path", "key.path", "key.password", "ca.path", "client.auth.enabled", "insecure", "protocols",
    "keystore.type", "keystore.path", "keystore.password", "truststore.type", "truststore.path", "truststore.password",
    "ssl.provider",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The certificate of a process and the authorities that it trusts; all files are PEM.

    certificate: with its chain; key: its private key, None if it is in the same file. authorities: the trusted certificate
    authorities, None for the system's. client_auth: whether listeners require a client certificate.
    insecure: accept any certificate. protocols: TLS versions; 1.2 and later by default.
    """

    certificate: Path | None = None
    key: Path | None = None
    key_password: str = field(default="", repr=False)
    authorities: Path | None = None
    client_auth: bool = False
    insecure: bool = False
    protocols: tuple[str, ...] = ()

    def server_context(self) -> ssl.SSLContext:
        """Return the context of a listener. Raises InvalidConfigError."""
        if self.certificate is None:
            raise InvalidConfigError("TLS needs a certificate: --tls-cert and --tls-key, or the key …tls.certificate.path")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load_own(context)
        if self.client_auth:
            if self.authorities is None:
                raise InvalidConfigError("client.auth.enabled needs ca.path: the authorities of clients' certificates")
            context.verify_mode = ssl.CERT_REQUIRED
            self._load_authorities(context)
        self._set_versions(context)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the context of outgoing connections. Raises InvalidConfigError."""
        context = ssl.create_default_context()
        if self.authorities is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # only these, not the system's
            self._load_authorities(context)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            self._load_own(context)
        self._set_versions(context)
        return context

    def pem_files(self, what: str) -> tuple[bytes, bytes, bytes | None]:
        """Return gRPC's form of a context: the certificate, its key, the authorities of clients' certificates.

        Without the last, clients need no certificate. what: the gRPC service, for messages. Raises InvalidConfigError, also
        for settings that gRPC does not support.
        """
        self.server_context()  # raises if the files are unusable
        assert self.certificate is not None
        if self.key_password:
            raise InvalidConfigError(
                f"{what} needs a key without a password: openssl pkey -in key.pem -out plain.pem, or leave its port out"
            )
        if self.protocols:
            raise InvalidConfigError(f"{what} encrypts by TLS 1.2 or 1.3, and 'protocols' cannot bind it to some of them")
        trusted = None if self.authorities is None or not self.client_auth else _read(self.authorities)
        return _read(self.certificate), _read(self.key or self.certificate), trusted

    def _load_own(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None
        try:
            context.load_cert_chain(self.certificate, self.key, lambda: self.key_password)
        except OSError as error:  # ssl.SSLError is one
            files = f"{self.certificate}{f' and {self.key}' if self.key else ''}"
            raise InvalidConfigError(
                f"cannot use the certificate and key in {files}: {error.strerror or error}; both must be PEM. Of a Java key "
                "store: openssl pkcs12 -in store.p12 -out server.pem"
            ) from None

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        try:
            context.load_verify_locations(self.authorities)
        except OSError as error:
            raise InvalidConfigError(
                f"cannot use the authorities in {self.authorities}: {error.strerror or error}; the file must be PEM"
            ) from None

    def _set_versions(self, context: ssl.SSLContext) -> None:
        versions = sorted(_VERSIONS[name] for name in self.protocols) or [ssl.TLSVersion.TLSv1_2]
        context.minimum_version = versions[0]
        if self.protocols:
            context.maximum_version = versions[-1]


def read_tls(prefix: str, properties: Mapping[str, str]) -> TlsSettings | None:
    """Read the settings with keys below `prefix`, None if there are none. Raises InvalidConfigError."""
    given = {
        key.removeprefix(f"{prefix}."): value.strip() for key, value in properties.items() if key.startswith(f"{prefix}.")
    }
    if not given:
        return None
    for key in given:
        if key not in _KEYS:
            raise InvalidConfigError(f"'{prefix}.{key}' means nothing.{nearest(key, _KEYS)}")
    for kind in ("keystore", "truststore"):
        if f"{kind}.path" in given and given.get(f"{kind}.type", "").upper() != "PEM":
            use = "certificate.path and key.path" if kind == "keystore" else "ca.path"
            raise InvalidConfigError(
                f"'{prefix}.{kind}.path': Java's key stores cannot be read; give PEM files by {prefix}.{use}, or set "
                f"{prefix}.{kind}.type=PEM"
            )
    certificate = given.get("certificate.path") or given.get("keystore.path")
    protocols = tuple(part.strip() for part in given.get("protocols", "").split(",") if part.strip())
    if unknown := [name for name in protocols if name not in _VERSIONS]:
        raise InvalidConfigError(f"'{prefix}.protocols' has {unknown[0]}; it may have {', '.join(_VERSIONS)}")
    authorities = given.get("ca.path") or given.get("truststore.path")
    return TlsSettings(
        certificate=None if certificate is None else Path(certificate),
        key=Path(given["key.path"]) if "key.path" in given else None,
        key_password=given.get("key.password") or given.get("keystore.password", ""),
        authorities=None if authorities is None else Path(authorities),
        client_auth=_flag(prefix, given, "client.auth.enabled"),
        insecure=_flag(prefix, given, "insecure"),
        protocols=protocols,
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidConfigError(f"cannot read {file}: {error.strerror}") from error


def _flag(prefix: str, given: Mapping[str, str], key: str) -> bool:
    text = given.get(key, "false").lower()
    if text not in ("true", "false"):
        raise InvalidConfigError(f"'{prefix}.{key}' must be true or false")
    return text == "true"
