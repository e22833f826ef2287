"""The cluster of a session, as `register` was given it, for what runs without saying one."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from gamay.base.errors import InvalidConfigError

_registered: "WeakKeyDictionary[Any, Mapping[str, str]]" = WeakKeyDictionary()


def remember(spark: Any, options: Mapping[str, str]) -> None:
    """Keep the options, `controller` among them, that queries of a session are run with unless they say others."""
    _registered[spark] = options


def remembered(spark: Any) -> Mapping[str, str]:
    """Return these options. Raises InvalidConfigError when the session was not given a cluster."""
    if spark not in _registered:
        raise InvalidConfigError(
            "which cluster? Say gamay.spark.sql(spark, text, 'http://localhost:9000'), or before that "
            "gamay.spark.register(spark, 'http://localhost:9000')"
        )
    return _registered[spark]
