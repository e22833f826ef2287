"""The parameters of a URL, decoded strictly: invalid bytes are an error, not replaced."""

from urllib.parse import parse_qsl

from gamay.base.errors import InvalidConfigError


def url_parameters(query_string: bytes) -> dict[str, str]:
    """Return the parameters of a URL's query string by name; the last of equal names wins.

    Raises InvalidConfigError when they are not UTF-8.
    """
    try:
        pairs = parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidConfigError(f"the parameters of the URL are not valid UTF-8: {error}") from error
    return dict(pairs)
