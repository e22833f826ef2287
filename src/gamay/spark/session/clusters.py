"""The cluster that `register` set for a session, the default of its queries."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from gamay.base.errors import InvalidConfigError

_registered: "WeakKeyDictionary[Any, Mapping[str, str]]" = WeakKeyDictionary()


def remember(spark: Any, options: Mapping[str, str]) -> None:
    """Store the default options of a session's queries, including `controller`."""
    _registered[spark] = options


def remembered(spark: Any) -> Mapping[str, str]:
    """Return the default options. Raises InvalidConfigError if the session has no cluster."""
    if spark not in _registered:
        raise InvalidConfigError(
            "which cluster? Say gamay.spark.sql(spark, text, 'http://localhost:9000'), or before that "
            "gamay.spark.register(spark, 'http://localhost:9000')"
        )
    return _registered[spark]
