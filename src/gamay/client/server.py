"""A server's HTTP interface, for whoever reads tables whole."""

from collections.abc import Sequence
from urllib.parse import quote

from gamay.client.http import HttpService

READ_TIMEOUT_S = 600.0


class ServerClient(HttpService):
    """One server. Every method raises the errors of `HttpService.request`."""

    def read_view(
        self, table: str, sql: str, rows: Sequence[str], counting: Sequence[str], *, deleting: bool = False
    ) -> bytes:
        """Return rows of segments as an Arrow IPC stream, whose schema tells which rows of others count: as of one moment.

        table: typed. sql: a selection. rows: the segments that it reads. counting: those to tell the rows of that count;
        deleting: rows that delete their keys do, too.
        """
        body = {"sql": sql, "rows": list(rows), "counting": list(counting), "deleting": deleting}
        path = f"/tables/{quote(table, safe='')}/readView"
        return self.request("POST", path, json=body, timeout=READ_TIMEOUT_S).content
