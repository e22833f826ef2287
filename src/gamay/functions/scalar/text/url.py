"""Parts of URLs, and URLs without some parts. URLs are parsed as by java.net.URI (RFC 2396).

An invalid URL has no parts (null), and functions that remove parts return it unchanged. Paths, query strings and
fragments are returned with their %-escapes decoded; the remainder after removing parts is not decoded. The significant
label of a host follows a rule, not the list of public suffixes: it is the last but one, or the one before if that is
`com`, `net`, `org`, `co`, `gov`, `edu` or `ac`, as in `example.co.uk`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import numpy as np

from gamay.functions.convert import array_of, python_values
from gamay.functions.scalar.define import by_value, each, lists, scalar
from gamay.functions.scalar.text.strings import lists_by_distinct
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, INT = DataType.STRING, DataType.INT

# RFC 2396, appendix B; then what java.net.URI accepts in each part: escapes, and non-ASCII characters other than blanks
_SPLIT = re.compile(r"(?:([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_LEGAL = re.compile(r"(?:[A-Za-z0-9_.!~*'();:@&=+$,/?\[\]-]|%[0-9A-Fa-f]{2}|(?=[^\x00-\xA0])\S)*")
_PORT_MAX, _OCTET_MAX = 2**31 - 1, 255
_OF_NUMBERS = frozenset("0123456789.")
_HOST_PORT = re.compile(
    r"(?:[^@\[\]]*@)?"
    r"(\[[0-9A-Fa-f:.]+(?:%25?\w+)?\]|\d{1,3}(?:\.\d{1,3}){3}|(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?)"
    r"(?::(\d*))?",
    re.ASCII,
)
_SECOND_LEVEL = frozenset(("com", "net", "org", "co", "gov", "edu", "ac"))


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL as written; None for missing ones. `host` is None for an authority that is not a host."""

    scheme: str | None
    authority: str | None
    host: str | None
    port: int
    path: str | None
    query: str | None
    fragment: str | None


def parse_url(text: str) -> Url | None:
    """Return the parts of a URL, or None if it is invalid."""
    match = _SPLIT.fullmatch(text)
    assert match is not None  # the expression matches any text
    scheme, _, authority, path, query, fragment = match.groups()
    if scheme is not None and not _SCHEME.fullmatch(scheme):
        return None
    if not all(_LEGAL.fullmatch(part or "") for part in (authority, path, query, fragment)):
        return None
    if "[" in path or "]" in path or (authority == "" and path == ""):
        return None
    if scheme is None and authority is None and path.startswith(":"):
        return None
    if scheme is not None and authority is None and not path.startswith("/"):
        return Url(scheme, None, None, -1, None, None, fragment) if path else None  # mailto:someone
    host, port = _server(authority or "")
    if host is None and "[" in (authority or ""):
        return None
    return Url(scheme, authority or None, host, port, path, query, fragment)


def _server(authority: str) -> tuple[str | None, int]:
    """Return the host and the port (-1 without one) of an authority; (None, -1) if it is of another kind."""
    match = _HOST_PORT.fullmatch(authority)
    if match is None:
        return None, -1
    host, port = match[1], int(match[2] or -1)
    octets = host.split(".") if _OF_NUMBERS.issuperset(host) else []
    return (None, -1) if port > _PORT_MAX or any(int(octet) > _OCTET_MAX for octet in octets) else (host, port)


def _part(*names: str, doc: str) -> Callable[[Callable[[Url], str | None]], None]:
    """Register a function of the parts of a valid URL."""

    def decorate(read: Callable[[Url], str | None]) -> None:
        def part(url: str) -> str | None:
            parsed = parse_url(url)
            return None if parsed is None else read(parsed)

        part.__doc__ = doc
        by_value(*names, params=(STRING,), returns=STRING)(part)

    return decorate


def _decoded(part: str | None) -> str | None:
    return None if part is None else unquote(part)


def _without_www(host: str) -> str:
    return host[4:] if host[:4].lower() == "www." else host


def _significant_from(host: str) -> list[str]:
    """Return the labels of a host from the significant one on; empty for addresses and hosts of one label."""
    labels = host.rstrip(".").split(".")
    if len(labels) < 2 or host.startswith("[") or labels[-1].isdigit():
        return []
    count = 3 if len(labels) > 2 and labels[-2].lower() in _SECOND_LEVEL else 2
    return labels[-count:]


_part("urlProtocol", doc="The scheme, such as `https`.")(lambda url: url.scheme)
_part("urlDomain", doc="The host.")(lambda url: url.host)
_part("urlDomainWithoutWWW", doc="The host without `www.` at its beginning.")(
    lambda url: None if url.host is None else _without_www(url.host)
)
_part("urlTopLevelDomain", doc="The last label of the host; empty for addresses and hosts of one label.")(
    lambda url: None if url.host is None else "".join(_significant_from(url.host)[-1:])
)
_part("urlFirstSignificantSubdomain", doc="The significant label of the host: `example` of `www.example.co.uk`.")(
    lambda url: None if url.host is None else "".join(_significant_from(url.host)[:1])
)
_part("urlPath", doc="The path, decoded.")(lambda url: _decoded(url.path))
_part("urlPathWithQuery", doc="The path and the query string, as written.")(
    lambda url: None if url.path is None else url.path + ("" if url.query is None else f"?{url.query}")
)
_part("urlQueryString", doc="The query string without its question mark, decoded.")(lambda url: _decoded(url.query))
_part("urlFragment", doc="The fragment without its number sign, decoded.")(lambda url: _decoded(url.fragment))
_part("urlNetloc", doc="User, host and port: `ann@example.com:80`.")(lambda url: url.authority)


@by_value("urlQueryStringAndFragment", params=(STRING,), returns=STRING)
def url_query_string_and_fragment(url: str) -> str | None:
    """The query string, and the fragment with its number sign, decoded."""
    parsed = parse_url(url)
    if parsed is None or (parsed.query is None and parsed.fragment is None):
        return None
    return unquote(parsed.query or "") + ("" if parsed.fragment is None else f"#{unquote(parsed.fragment)}")


@by_value("urlPort", params=(STRING,), returns=INT)
def url_port(url: str) -> int:
    """The port, -1 if none is given."""
    parsed = parse_url(url)
    return -1 if parsed is None else parsed.port


# -- parameters


def _parameters(url: str) -> list[str] | None:
    parsed = parse_url(url)
    return None if parsed is None else [part for part in (parsed.query or "").split("&") if part]


@by_value("extractURLParameter", params=(STRING, STRING), returns=STRING)
def extract_url_parameter(url: str, name: str) -> str | None:
    """The value of the first parameter of that name, decoded; empty if there is none."""
    parameters = _parameters(url)
    if parameters is None:
        return None
    pairs = (part.partition("=") for part in parameters)
    return next((unquote(value) for key, _, value in pairs if unquote(key) == name), "")


@scalar("extractURLParameters", params=(each(STRING),), returns=STRING, multi_value=True)
def extract_url_parameters(text: Any) -> Vector:
    """The parameters as written, `name=value` each."""
    return lists_by_distinct(text, _parameters, STRING)


@scalar("extractURLParameterNames", params=(each(STRING),), returns=STRING, multi_value=True)
def extract_url_parameter_names(text: Any) -> Vector:
    """The names of the parameters, decoded."""

    def names(url: str) -> list[str] | None:
        parameters = _parameters(url)
        return None if parameters is None else [unquote(part.partition("=")[0]) for part in parameters]

    return lists_by_distinct(text, names, STRING)


# -- hierarchies


def _steps(text: str, start: int) -> list[str]:
    """Return the prefixes of a text that end after each run of `/`, `?` and `#` from `start` on, and the whole text."""
    ends = [match.end() for match in re.compile(r"[/?#]+").finditer(text, start)]
    return [text[:end] for end in dict.fromkeys([*ends, len(text)])]


@scalar("urlHierarchy", params=(each(STRING),), returns=STRING, multi_value=True)
def url_hierarchy(text: Any) -> Vector:
    """`https://a.b/c/d` is `https://a.b/`, `https://a.b/c/`, `https://a.b/c/d`."""

    def steps(url: str) -> list[str] | None:
        parsed = parse_url(url)
        if parsed is None:
            return None
        start = 0 if parsed.authority is None else url.index("//") + 2 + len(parsed.authority)
        return _steps(url, start)

    return lists_by_distinct(text, steps, STRING)


@scalar("urlPathHierarchy", params=(each(STRING),), returns=STRING, multi_value=True)
def url_path_hierarchy(text: Any) -> Vector:
    """`https://a.b/c/d` is `/c/`, `/c/d`."""

    def steps(url: str) -> list[str] | None:
        parsed = parse_url(url)
        if parsed is None:
            return None
        rest = url[url.index("//") + 2 + len(parsed.authority) :] if parsed.authority is not None else parsed.path or ""
        return [step for step in _steps(rest, 1) if step.strip("/")] if rest else []

    return lists_by_distinct(text, steps, STRING)


# -- removing parts


def _cut_to_significant(url: str, keep_www: bool) -> str:
    parsed = parse_url(url)
    if parsed is None or parsed.host is None:
        return url
    kept = ".".join(_significant_from(parsed.host))
    with_www = keep_www and kept and parsed.host.lower() == f"www.{kept.lower()}"
    return parsed.host if with_www else kept


@by_value("cutToFirstSignificantSubdomain", params=(STRING,), returns=STRING)
def cut_to_first_significant_subdomain(url: str) -> str:
    """The host from its significant label on: `example.co.uk` of `https://news.example.co.uk/`."""
    return _cut_to_significant(url, keep_www=False)


@by_value("cutToFirstSignificantSubdomainWithWWW", params=(STRING,), returns=STRING)
def cut_to_first_significant_subdomain_with_www(url: str) -> str:
    """As `cutToFirstSignificantSubdomain`, but `www.` is kept if it directly precedes that."""
    return _cut_to_significant(url, keep_www=True)


def _cut(name: str, pattern: str, doc: str) -> None:
    """Register a function that replaces what the pattern matches by its first group."""
    expression = re.compile(pattern, re.DOTALL | re.IGNORECASE)

    def cut(url: str) -> str:
        return url if parse_url(url) is None else expression.sub(r"\1", url, count=1)

    cut.__doc__ = doc
    by_value(name, params=(STRING,), returns=STRING)(cut)


_cut("cutWWW", r"^((?:[^:/?#]+:)?//(?:[^/?#@]*@)?)www\.", "The URL without `www.` at the beginning of its host.")
_cut("cutQueryString", r"^([^?#]*)\?[^#]*", "The URL without its query string.")
_cut("cutFragment", r"^([^#]*)#.*", "The URL without its fragment.")
_cut("cutQueryStringAndFragment", r"^([^?#]*)[?#].*", "The URL without its query string and fragment.")


def _without_parameters(url: str, names: Sequence[str]) -> str:
    parsed = parse_url(url)
    if parsed is None or not parsed.query:
        return url
    parts = parsed.query.split("&")
    kept = [part for part in parts if unquote(part.partition("=")[0]) not in names]
    if len(kept) == len(parts):
        return url
    before, _, rest = url.partition("?")
    _, mark, fragment = rest.partition("#")
    return before + ("?" if kept else "") + "&".join(kept) + mark + fragment


@by_value("cutURLParameter", params=(STRING, STRING), returns=STRING)
def cut_url_parameter(url: str, name: str) -> str:
    """The URL without the parameters of that name."""
    return _without_parameters(url, (name,))


@scalar("cutURLParameters", params=(each(STRING), lists(STRING)), returns=STRING)
def cut_url_parameters(text: Any, names: Vector) -> Any:
    """The URL without the parameters of these names."""
    listed = python_values(names.values)
    offsets = np.asarray(names.offsets).tolist()
    rows = zip(text.to_pylist(), pairwise(offsets), strict=True)
    return array_of([_without_parameters(url, listed[a:b]) for url, (a, b) in rows], STRING)


# -- escapes


@by_value("encodeUrl", "urlEncodeFormComponent", params=(STRING,), returns=STRING)
def encode_url(text: str) -> str:
    """Form encoding: a blank becomes a plus."""
    return quote_plus(text, safe="*").replace("~", "%7E")


@by_value("decodeUrl", "urlDecodeFormComponent", params=(STRING,), returns=STRING)
def decode_url(text: str) -> str:
    """Decode form encoding; escapes that are not UTF-8 become U+FFFD, invalid escapes are unchanged."""
    return unquote_plus(text)


@by_value("urlEncode", params=(STRING,), returns=STRING)
def url_encode(text: str) -> str:
    """Escape all but letters, digits and `-_.~`: a blank becomes %20."""
    return quote(text, safe="")


@by_value("urlDecode", params=(STRING,), returns=STRING)
def url_decode(text: str) -> str:
    """Decode escapes; a plus is unchanged. Escapes that are not UTF-8 become U+FFFD."""
    return unquote(text)
