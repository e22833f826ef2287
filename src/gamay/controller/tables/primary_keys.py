"""Reports of servers about the primary keys of upsert tables."""

import logging
from collections.abc import Collection, Mapping
from typing import Any

from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import ONLINE
from gamay.controller.context import ControllerContext

_log = logging.getLogger(__name__)


def told_keys(context: ControllerContext, server: str, table: str) -> Mapping[str, int]:
    """Return the number of primary keys of a server by partition; empty if it does not answer."""
    try:
        return context.servers.upsert_keys(server, table)
    except NotFoundError as error:
        _log.warning("%s does not report its primary keys of %s: %s", server, table, error)
        return {}


def valid_doc_counts(
    context: ControllerContext, table: str, names: Collection[str], kind: str, batch: int
) -> list[Mapping[str, Any]]:
    """Return the counts of valid rows of each segment, in the format of the first server that knows them.

    names: of segments, empty for all; kind: a `validDocIdsType`; batch: number of segments per request to a server.
    Segments that no server knows are left out.
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
            _log.warning("%s does not report the valid rows of %s: %s", server, table, error)
    return [told[name] for name in sorted(told)]
