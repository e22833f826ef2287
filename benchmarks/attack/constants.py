"""Calls of functions with long constants, which a broker computes while it compiles a query: none may block it."""

import random

from gamay.functions import registry

COMPILED_S = 2.0
"""The most processor time for one: the moment that constants have, and the step within which it ends."""

_TEXTS = (
    "repeat('a', 1000000)", "repeat('1', 1000000)", "repeat('[', 1000000)", "repeat('a,', 500000)", "repeat('a.b/', 250000)",
    "repeat('(a*)', 200000)", "repeat('(a*)', 8000)", "repeat('a?', 500)", "repeat('%_', 500000)", "repeat('%_', 16000)",
    "repeat('{\"a\":[', 150000)", "repeat('ä😀b ', 250000)", "repeat('<a>', 300000)", "repeat('May-', 60)",
    "repeat('MMM-', 60)", "concat('POLYGON((', concat(repeat('1 1, 2 2, 1 3, ', 60000), '1 1))'))",
    "concat('[', concat(repeat('{\"key\":\"a\",\"value\":1},', 40000), '1]'))",
    "concat('[', concat(repeat('{\"key\":\"a\",\"value\":1},', 1400), '1]'))",
)  # fmt: skip
_SHORT_TEXTS = ("'a'", "'(a*)*b'", "'(?=(a+)+$)(a|aa)+b'", "'$..a'", "','", "'UTC'", "'yyyy-MM-dd'", "'DAY'", "''")
_NUMBERS = ("2147483647", "1000000", "-2147483648", "9223372036854775807", "0", "3", "1e300", "0.5")
_OTHERS = ("true", "cast(1700000000000 as TIMESTAMP)", "cast('1e300' as BIG_DECIMAL)", "cast('0.1' as BIG_DECIMAL)", "null")
_WAITS = {"sleep"}

FUNCTIONS = tuple(
    name
    for name in sorted(registry.function_names())
    if name not in _WAITS and (found := registry.scalar_function(name)) is not None and found.max_args != 0
)
"""Names of the functions that take arguments."""


def long_call(name: str, rng: random.Random) -> str:
    """Return a call of a function with a valid number of arguments, many of them long, most of suitable types."""
    function = registry.must_get_scalar(name)
    most = function.max_args if function.max_args is not None else function.min_args + 2
    return f"{name}({', '.join(_argument(rng) for _ in range(rng.randint(max(function.min_args, 1), most)))})"


def _argument(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        text = rng.choice(_TEXTS)
        return f"toUtf8({text})" if rng.random() < 0.1 else text
    if kind < 0.7:
        return rng.choice(_SHORT_TEXTS)
    return rng.choice(_NUMBERS if kind < 0.95 else _OTHERS)
