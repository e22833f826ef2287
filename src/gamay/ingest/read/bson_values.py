"""BSON documents, as MongoDB writes them, as records (`pip install gamay[bson]`).

Object ids, UUIDs, symbols, code and patterns become text; dates and timestamps times; decimals keep their digits.
"""

from collections.abc import Callable
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.ingest.convert.objects import plain_value


def bson_reader(what: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a parser of one document, which raises the library's errors for invalid bytes.

    what: the feature that needs it, for the InvalidConfigError that is raised without the library.
    """
    try:
        import bson
        from bson.codec_options import CodecOptions, DatetimeConversion
    except ImportError:
        raise InvalidConfigError(f"{what} needs pymongo: pip install 'gamay[bson]'") from None
    options: Any = CodecOptions(tz_aware=True, datetime_conversion=DatetimeConversion.DATETIME_AUTO)

    def read(data: bytes) -> dict[str, Any]:
        document: dict[str, Any] = plain_value(bson.decode(data, options), _special)
        return document

    return read


def _special(value: Any) -> Any:
    """Convert a value of the library's own types."""
    from bson import Binary, DBRef, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp
    from bson.binary import UUID_SUBTYPE
    from bson.datetime_ms import DatetimeMS

    match value:
        case Int64() | DatetimeMS():
            return int(value)
        case Timestamp():
            return value.as_datetime()
        case Decimal128():
            return value.to_decimal()
        case Binary():
            return str(value.as_uuid()) if value.subtype == UUID_SUBTYPE else bytes(value)
        case Regex():
            return str(value.pattern)
        case DBRef():
            return dict(value.as_doc())
        case MinKey() | MaxKey():
            return None
    return str(value)
