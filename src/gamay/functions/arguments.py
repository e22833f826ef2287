"""Errors for arguments that a function does not take."""

from gamay.base.errors import ErrorCode, QueryError, counted

_ELEMENTS_MAX = 1 << 26


def wrong(name: str, detail: str) -> QueryError:
    """Return the error for arguments that a function does not take."""
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Function '{name}': {detail}")


# appended to errors about the number of arguments, for functions that have another meaning in other databases
_ADVICE = {"round": "; numbers are rounded by roundDecimal(x, places)"}


def check_count(name: str, count: int, least: int, most: int | None) -> None:
    """Raise QueryError if a function does not take this number of arguments."""
    if count < least or (most is not None and count > most):
        raise wrong(name, f"it takes {arguments(least, most)}, not {count}{_ADVICE.get(name, '')}")


def arguments(least: int, most: int | None) -> str:
    """Return the number of arguments that a function takes, as text: `1 to 3 arguments`."""
    if most == least:
        return counted(least, "argument") if least else "no arguments"
    return f"at least {counted(least, 'argument')}" if most is None else f"{least} to {counted(most, 'argument')}"


def check_elements(name: str, count: int) -> None:
    """Raise QueryError if a function would make more list elements, over all rows of a block, than memory may hold."""
    if count > _ELEMENTS_MAX:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"Function '{name}': {count} elements in a block of rows are too many; at most {_ELEMENTS_MAX} are allowed",
        )
