"""`INSERT INTO … FROM FILE`: the broker submits it to the controller as a task, with the caller's credentials."""

import ssl

from gamay.base.errors import ErrorCode, GamayError, QueryError
from gamay.client.controller import ControllerClient
from gamay.cluster.records.controllers import controller_url
from gamay.cluster.records.registry import Registry
from gamay.functions.vector import Vector
from gamay.model.table.table_name import table_type_of
from gamay.model.task_settings import SEGMENT_GENERATION
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse, ResultTable
from gamay.query.columns.constants import values_of
from gamay.sql.insert import parse_insert

_TIMEOUT_S = 60.0


class FileInserts:
    """Client of the controller. tls: verifies its certificate."""

    def __init__(self, registry: Registry, tls: ssl.SSLContext | None = None) -> None:
        self._registry = registry
        self._tls = tls

    def answer(self, sql: str, authorization: str | None, database: str | None) -> BrokerResponse:
        """Create the tasks of a statement, one for each of its files, and return their names.

        authorization: header of the request; the controller checks the sender's rights. Raises QueryError.
        """
        insert = parse_insert(sql)
        settings = dict(insert.settings)
        task_type, task_name = settings.pop("taskType", SEGMENT_GENERATION), settings.pop("taskName", "")
        table = f"{database}.{insert.table}" if database and "." not in insert.table else insert.table
        if task_type == SEGMENT_GENERATION and table_type_of(table) is None:
            table = f"{table}_OFFLINE"  # the half of a hybrid table that files are loaded into
        made: list[tuple[str, str]] = []
        try:
            url = controller_url(self._registry)
            with ControllerClient(
                url, auth_token=authorization, timeout_s=_TIMEOUT_S, verify=self._tls or True
            ) as controller:
                for number, uri in enumerate(insert.uris):
                    name = f"{task_name}_{number}" if task_name and number else task_name
                    jobs = controller.execute_task(task_type, table, name, {**settings, "inputDirURI": uri})
                    made += sorted(jobs.items())
        except GamayError as error:
            begun = f" ({len(made)} tasks were created before: {', '.join(job for _, job in made)})" if made else ""
            code = ErrorCode.ACCESS_DENIED if error.http_status in (401, 403) else ErrorCode.QUERY_EXECUTION
            raise QueryError(code, f"{error}{begun}") from error
        columns = [Vector(DataType.STRING, values_of(DataType.STRING, list(values))) for values in zip(*made, strict=True)]
        return BrokerResponse(ResultTable(("tableName", "taskJobName"), ("STRING", "STRING"), tuple(columns)))
