"""Queries over the broker's HTTP interface."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import ErrorCode, QueryError
from gamay.client.http import HttpService

_CODES = {code.code: code for code in ErrorCode}


@dataclass(frozen=True, slots=True)
class ResultSet:
    """An answer. response: the whole JSON as the broker sent it, with statistics and, where it is partial, exceptions."""

    column_names: tuple[str, ...]
    column_types: tuple[str, ...]
    rows: list[list[Any]]
    response: Mapping[str, Any]


class BrokerClient(HttpService):
    """Sends queries to a broker."""

    def health(self) -> bool:
        """Return whether the broker says that it is ready."""
        return self.request("GET", "/health").status_code == 200

    def query(self, sql: str, options: Mapping[str, Any] | None = None) -> ResultSet:
        """Return the answer of a query; raises QueryError when the broker reports an exception.

        options: query options such as `{"timeoutMs": 500}`.
        """
        payload: dict[str, Any] = {"sql": sql}
        if options:
            payload["queryOptions"] = ";".join(f"{name}={_text(value)}" for name, value in options.items())
        response = self.json("POST", "/query/sql", json=payload)
        exceptions = response.get("exceptions") or []
        if exceptions:
            code = _CODES.get(exceptions[0].get("errorCode"), ErrorCode.UNKNOWN)
            message = str(exceptions[0].get("message", "")).removeprefix(f"{code.label}: ")
            raise QueryError(code, message)
        table = response.get("resultTable") or {"dataSchema": {"columnNames": [], "columnDataTypes": []}, "rows": []}
        schema = table["dataSchema"]
        return ResultSet(tuple(schema["columnNames"]), tuple(schema["columnDataTypes"]), table["rows"], response)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
