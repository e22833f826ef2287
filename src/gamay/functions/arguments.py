"""Errors for arguments that a function does not take."""

from gamay.base.errors import ErrorCode, QueryError

_ELEMENTS_MAX = 1 << 26


def wrong(name: str, detail: str) -> QueryError:
    """Return the error for arguments that a function does not take."""
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Function '{name}': {detail}")


def check_count(name: str, count: int, least: int, most: int | None) -> None:
    """Raise QueryError when a function does not take so many arguments."""
    if count < least or (most is not None and count > most):
        takes = f"{least}" if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        raise wrong(name, f"{takes} argument(s) are needed, {count} are given")


def check_elements(name: str, count: int) -> None:
    """Raise QueryError when a function is to make more elements of lists, of all rows together, than memory may hold."""
    if count > _ELEMENTS_MAX:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"Function '{name}': {count} elements in a block of rows are too many; {_ELEMENTS_MAX} at most",
        )
