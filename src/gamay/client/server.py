"""Client of a server's HTTP interface, for full scans of tables."""

from collections.abc import Sequence
from urllib.parse import quote

from gamay.client.http import HttpService

READ_TIMEOUT_S = 600.0


class ServerClient(HttpService):
    """Client of one server. Every method raises the errors of `HttpService.request`."""

    def read_view(
        self, table: str, sql: str, rows: Sequence[str], counting: Sequence[str], *, deleting: bool = False
    ) -> bytes:
        """Return rows of segments as an Arrow IPC stream, with the valid docs of other segments in its schema, atomically.

        table: typed. sql: a selection. rows: the segments that it reads. counting: the segments to return valid docs of.
        deleting: rows that delete their keys are valid, too.
        """
        body = {"sql": sql, "rows": list(rows), "counting": list(counting), "deleting": deleting}
        path = f"/tables/{quote(table, safe='')}/readView"
        return self.request("POST", path, json=body, timeout=READ_TIMEOUT_S).content
