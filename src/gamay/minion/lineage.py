"""OpenLineage events of subtasks, with the tables that they read and write."""

from collections.abc import Callable

from gamay.cluster.tasks.queue import Leased
from gamay.minion.context import MinionAccess
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import TableType, raw_table_name, typed_table_name
from gamay.model.task_settings import REALTIME_TO_OFFLINE
from gamay.spark.lineage import Dataset, LineageRun, RunState


def with_events(leased: Leased, access: MinionAccess, execute: Callable[[], str]) -> str:
    """Execute a subtask, and send START, then COMPLETE or FAIL, for the job `gamay.<task type>.<typed table>`.

    Raises InvalidConfigError if OpenLineage's client is not installed, and the subtask's errors.
    """
    table, task_type = leased.subtask.table, leased.job.task_type
    goes_offline = task_type == REALTIME_TO_OFFLINE
    written = typed_table_name(raw_table_name(table), TableType.OFFLINE) if goes_offline else table
    document = access.registry.get_schema(raw_table_name(table))
    schema = None if document is None else Schema.from_json(document).value
    controller = access.controller_url()
    inputs, outputs = ([Dataset.of_table(controller, name, schema)] for name in (table, written))
    run = LineageRun.begin(f"gamay.{task_type}.{table}")
    run.tell(RunState.START, inputs, outputs)
    try:
        said = execute()
    except BaseException as error:
        run.tell(RunState.FAIL, inputs, outputs, str(error) or repr(error))
        raise
    run.tell(RunState.COMPLETE, inputs, outputs)
    return said
