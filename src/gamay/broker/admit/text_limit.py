"""Maximum length of the text of a query: parsing takes about a second per million characters."""

from collections.abc import Mapping

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.cluster_settings import QUERY_LENGTH


class TextLimit:
    """The limit of a broker, which follows the cluster's settings."""

    def __init__(self) -> None:
        self.apply({})

    def apply(self, settings: Mapping[str, str]) -> None:
        """Apply the cluster's settings."""
        self._length_max = QUERY_LENGTH.whole(settings)

    def check(self, sql: str) -> None:
        """Raise QueryError 150 for a text that is too long."""
        if len(sql) > self._length_max:
            raise QueryError(
                ErrorCode.SQL_PARSING,
                f"The query has {len(sql):,} characters, more than the {self._length_max:,} allowed ({QUERY_LENGTH.name}); "
                "for a long list of values use IN_SUBQUERY, or IN_ID_SET with an id set",
            )
