"""Query options: their names, where they come from, and which of two wins.

From the strongest to the weakest: `SET key = value;` before the query (the last of equal keys), `OPTION(key=value, …)` at
its end, the request's `queryOptions`, the request's `trace`. Known names are matched without regard to case; unknown ones
are kept, for clients send options of their own. Values are text.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from gamay.base.errors import ErrorCode, QueryError

_KNOWN = """
timeoutMs extraPassiveTimeoutMs enableNullHandling useMultistageEngine trace database useStarTree
scanStarTreeNodes skipUpsert skipUpsertView upsertViewFreshnessMs skipUpsertDelete routingOptions sampler
useScanReorderOpt AndScanReordering skipIndexes maxExecutionThreads minSegmentGroupTrimSize
minServerGroupTrimSize minBrokerGroupTrimSize mseMinGroupTrimSize groupTrimThreshold numGroupsLimit
numGroupsWarningLimit errorOnNumGroupsLimit maxInitialResultHolderCapacity minInitialIndexedTableCapacity
mseMaxInitialResultHolderCapacity sortAggregateLimitThreshold accurateGroupByWithoutOrderBy
numThreadsExtractFinalResult chunkSizeExtractFinalResult streamingGroupByFlushThreshold
serverReturnFinalResult serverReturnFinalResultKeyUnpartitioned filteredAggregationsSkipEmptyGroups
numReplicaGroupsToQuery orderedPreferredPools useFixedReplica explainPlanVerbose explainAskingServers
useSpools usePhysicalOptimizer useLiteMode stageParallelism inferPartitionHint multiStageLeafLimit
skipPlannerRules usePlannerRules traceRuleProductions streamStats maxRowsInJoin joinOverflowMode
maxRowsInWindow windowOverflowMode maxRowsInDistinct maxRowsWithoutChangeInDistinct
maxExecutionTimeMsInDistinct allowReverseOrder inPredicatePreSorted inPredicateLookupAlgorithm
inPredicatePruningThreshold regexDictSizeThreshold autoRewriteAggregationType dropResults
excludeVirtualColumns getCursor cursorNumRows clientQueryId applicationName workloadName isSecondaryWorkload
maxServerResponseSizeBytes maxQueryResponseSizeBytes skipUnavailableServers ignoreMissingSegments
useIndexBasedDistinctOperator collectGCStats queryHash groupByMode responseFormat preserveType
"""
_NAMES = {name.lower(): name for name in _KNOWN.split()}
_NUMBERS = frozenset(
    {
        "timeoutMs",
        "maxExecutionThreads",
        "minSegmentGroupTrimSize",
        "minServerGroupTrimSize",
        "minBrokerGroupTrimSize",
        "groupTrimThreshold",
        "numGroupsLimit",
        "numGroupsWarningLimit",
        "maxRowsInDistinct",
        "maxServerResponseSizeBytes",
        "maxQueryResponseSizeBytes",
    }
)
_POSITIVE = frozenset({"timeoutMs", "numGroupsLimit", "maxRowsInDistinct"})
_TRAILING_OPTION = re.compile(r"\boption\s*\(([^()]*)\)\s*;?\s*\Z", re.IGNORECASE)
_COMMENT_AT_END = re.compile(r"--[^\n]*\Z")


def option_name(name: str) -> str:
    """Return the spelling under which an option is stored."""
    return _NAMES.get(name.lower(), name)


@lru_cache(maxsize=256)
def _parsed(text: str, separator: str) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for part in text.split(separator):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or "=" in value:
            raise QueryError(ErrorCode.SQL_PARSING, f"'{part.strip()}' is no query option; each is written key=value")
        name = option_name(name)
        if options.setdefault(name, value) != value:
            raise QueryError(
                ErrorCode.SQL_PARSING, f"The query option {name} is given twice: '{options[name]}' and '{value}'"
            )
    return tuple(options.items())


def parse_query_options(text: str) -> dict[str, str]:
    """Parse the request field `queryOptions`, `key=value;key2=value2`; raises QueryError for a part that is none.

    Blank parts are skipped and an option repeated with the same value is one: clients send both.

    >>> parse_query_options(";timeoutms=5;timeoutMs=5")
    {'timeoutMs': '5'}
    """
    return dict(_parsed(text, ";"))


def split_trailing_option(text: str) -> tuple[str, dict[str, str]]:
    """Cut `OPTION(key=value, …)` off the end of a query; values are taken as written, quotes included."""
    match = _TRAILING_OPTION.search(text)
    if match is None or _in_comment(text[: match.start()]):
        return text, {}
    return text[: match.start()], dict(_parsed(match[1], ","))


def _in_comment(before: str) -> bool:
    return _COMMENT_AT_END.search(before) is not None or before.rfind("/*") > before.rfind("*/")


def check_options(options: Mapping[str, str]) -> None:
    """Raise QueryError for a value that an option cannot have."""
    for name, value in options.items():
        if name not in _NUMBERS:
            continue
        try:
            number = int(value)
        except ValueError:
            raise QueryError(ErrorCode.SQL_PARSING, f"The query option {name} is a whole number, not '{value}'") from None
        if name in _POSITIVE and number <= 0:
            raise QueryError(ErrorCode.SQL_PARSING, f"The query option {name} is greater than 0, not {number}")
