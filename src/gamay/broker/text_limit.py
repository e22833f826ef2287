"""How long the text of a query may be: reading it takes a second for each million characters or so."""

from collections.abc import Mapping

from gamay.base.errors import ErrorCode, QueryError

LENGTH_SETTING = "gamay.broker.query.maxLength"
_LENGTH_MAX = 4_000_000


class TextLimit:
    """The limit of a broker, which follows the cluster's settings."""

    def __init__(self) -> None:
        self._length_max = _LENGTH_MAX

    def apply(self, settings: Mapping[str, str]) -> None:
        """Take over the cluster's settings; what is no positive number leaves the default."""
        text = settings.get(LENGTH_SETTING, "").strip()
        self._length_max = int(text) if text.isdecimal() and int(text) > 0 else _LENGTH_MAX

    def check(self, sql: str) -> None:
        """Raise QueryError 150 for a text that is too long."""
        if len(sql) > self._length_max:
            raise QueryError(
                ErrorCode.SQL_PARSING,
                f"The query has {len(sql):,} characters, more than the {self._length_max:,} allowed ({LENGTH_SETTING}); "
                "for a long list of values use IN_SUBQUERY, or IN_ID_SET with an id set",
            )
