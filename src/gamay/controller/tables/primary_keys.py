"""What servers tell of the primary keys of tables whose rows replace each other."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import ONLINE
from gamay.controller.context import ControllerContext

_log = logging.getLogger(__name__)


def told_keys(context: ControllerContext, server: str, table: str) -> Mapping[str, int]:
    """Return how many primary keys a server holds of each partition; none when it does not answer."""
    try:
        return context.servers.upsert_keys(server, table)
    except NotFoundError as error:
        _log.warning("%s does not say how many primary keys of %s it holds: %s", server, table, error)
        return {}


def valid_doc_counts(
    context: ControllerContext, table: str, names: Collection[str], kind: str, batch: int
) -> list[Mapping[str, Any]]:
    """Return how many rows of each segment count, as the first server says that knows, in the shape of its answer.

    names: of segments, empty for all of them; kind: a `validDocIdsType`; batch: how many segments a server is asked about
    at a time. Segments of which no server knows are left out.
    """
    states = context.registry.must_get_ideal_state(table).states
    told: dict[str, Mapping[str, Any]] = {}
    for server in sorted({server for of_segment in states.values() for server in of_segment}):
        mine = [
            name
            for name in sorted(states)
            if states[name].get(server) == ONLINE and name not in told and (not names or name in names)
        ]
        try:
            for start in range(0, len(mine), batch):
                answers = context.servers.valid_doc_counts(server, table, mine[start : start + batch], kind)
                told |= {answer["segmentName"]: answer for answer in answers}
        except NotFoundError as error:
            _log.warning("%s does not say which rows of %s count: %s", server, table, error)
    return [told[name] for name in sorted(told)]
