"""Known query options, their valid values, and functions to read them.

Names and meanings are Pinot's, except for `brokerPruning`, `maxQueryMemoryBytes` and the limits on scans, which in Pinot are
table settings. Options for features that this engine lacks are validated and have no effect; `docs/guide/sql.md` lists the
effective ones.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.model.table.secondary_indexes import SECONDARY_KINDS

MULTI_STAGE = "useMultistageEngine"
NULL_HANDLING = "enableNullHandling"
SKIP_INDEXES = "skipIndexes"
SKIPPABLE = ("inverted", "range", "zone_map", *SECONDARY_KINDS)
"""The kinds of indexes that `skipIndexes` accepts."""
NULLS_ON = {NULL_HANDLING: "true"}
"""The options of a query with null handling and no others."""

_LONG_MAX = 2**63 - 1

_FLAGS = """
enableNullHandling useMultistageEngine trace useStarTree scanStarTreeNodes skipUpsert skipUpsertView skipUpsertDelete
useScanReorderOpt errorOnNumGroupsLimit accurateGroupByWithoutOrderBy serverReturnFinalResult
serverReturnFinalResultKeyUnpartitioned filteredAggregationsSkipEmptyGroups useFixedReplica explainPlanVerbose
explainAskingServers useSpools usePhysicalOptimizer useLiteMode inferPartitionHint traceRuleProductions streamStats
allowReverseOrder inPredicatePreSorted autoRewriteAggregationType dropResults excludeVirtualColumns getCursor
isSecondaryWorkload skipUnavailableServers ignoreMissingSegments useIndexBasedDistinctOperator vectorExactRerank
collectGCStats materializedViewRewrite enableMaterializedViewRewrite preserveType brokerPruning useBrokerPruning
enableMultiClusterRouting inferInvalidSegmentPartition inferRealtimeSegmentPartition jsonIndexDistinctSkipMissingPath
optimizeMaxInitialResultHolderCapacity runInBroker unnestColumnPruning useLeafServerForIntermediateStage
useMSEToFillEmptyResponseSchema vectorUseBoundedQueue vectorUseRelativeDistance
"""
# from 1 on
_POSITIVE = """
timeoutMs maxExecutionThreads numGroupsLimit numGroupsWarningLimit maxInitialResultHolderCapacity
minInitialIndexedTableCapacity mseMaxInitialResultHolderCapacity numThreadsExtractFinalResult
chunkSizeExtractFinalResult streamingGroupByFlushThreshold numReplicaGroupsToQuery stageParallelism maxRowsInJoin
maxRowsInWindow maxRowsInDistinct maxRowsWithoutChangeInDistinct maxExecutionTimeMsInDistinct cursorNumRows
maxServerResponseSizeBytes maxQueryResponseSizeBytes maxQueryMemoryBytes maxDocsScanned maxEntriesScannedInFilter
maxEntriesScannedPostFilter maxStreamingPendingBlocks vectorNprobe vectorMaxCandidates vectorEfSearch
"""
# any whole number: 0 or less disables what they limit
_INTEGERS = """
extraPassiveTimeoutMs upsertViewFreshnessMs minSegmentGroupTrimSize minServerGroupTrimSize minBrokerGroupTrimSize
mseMinGroupTrimSize groupTrimThreshold sortAggregateLimitThreshold multiStageLeafLimit inPredicatePruningThreshold
regexDictSizeThreshold liteModeLeafStageLimit liteModeLeafStageFanOutAdjustedLimit sortExchangeCopyThreshold
sortAggregateSingleThreadedNumSegmentsThreshold
"""
_CHOICES = {
    "joinOverflowMode": ("THROW", "BREAK"),
    "windowOverflowMode": ("THROW", "BREAK"),
    "inPredicateLookupAlgorithm": ("DIVIDE_BINARY_SEARCH", "SCAN", "PLAIN_BINARY_SEARCH"),
    "AndScanReordering": ("true", "false", "enable", "disable"),
    "groupByMode": ("sql", "pql"),
    "responseFormat": ("sql", "pql"),
}
_TEXTS = """
database routingOptions sampler orderedPreferredPools skipPlannerRules usePlannerRules clientQueryId
applicationName workloadName queryHash invertedIndexDistinctCostRatio
"""
# hints about Pinot's execution
_HINTS = """
aggOptions.is_enable_group_trim aggOptions.is_leaf_return_final_result aggOptions.is_partitioned_by_group_by_keys
aggOptions.is_skip_leaf_stage_group_by aggOptions.max_initial_result_holder_capacity aggOptions.mse_min_group_trim_size
joinOptions.append_distinct_to_semi_join_project joinOptions.is_colocated_by_join_keys joinOptions.join_strategy
joinOptions.left_distribution_type joinOptions.right_distribution_type setOpOptions.is_colocated_by_set_op_keys
tableOptions.is_replicated tableOptions.partition_function tableOptions.partition_key tableOptions.partition_parallelism
tableOptions.partition_size windowOptions.is_partitioned_by_window_keys
"""
# specific to Pinot's engine: its joins, memory and indexes
_STEERING_NOTHING = """
AndScanReordering allowReverseOrder chunkSizeExtractFinalResult collectGCStats enableMaterializedViewRewrite
enableMultiClusterRouting excludeVirtualColumns explainAskingServers extraPassiveTimeoutMs inPredicateLookupAlgorithm
inPredicatePreSorted inPredicatePruningThreshold inferInvalidSegmentPartition inferPartitionHint
inferRealtimeSegmentPartition invertedIndexDistinctCostRatio isSecondaryWorkload jsonIndexDistinctSkipMissingPath
liteModeLeafStageFanOutAdjustedLimit liteModeLeafStageLimit materializedViewRewrite maxExecutionThreads
maxInitialResultHolderCapacity maxStreamingPendingBlocks minInitialIndexedTableCapacity
mseMaxInitialResultHolderCapacity mseMinGroupTrimSize multiStageLeafLimit numThreadsExtractFinalResult
optimizeMaxInitialResultHolderCapacity orderedPreferredPools regexDictSizeThreshold routingOptions runInBroker sampler
scanStarTreeNodes serverReturnFinalResult serverReturnFinalResultKeyUnpartitioned skipPlannerRules
skipUnavailableServers sortAggregateLimitThreshold sortAggregateSingleThreadedNumSegmentsThreshold
sortExchangeCopyThreshold stageParallelism streamStats streamingGroupByFlushThreshold traceRuleProductions
unnestColumnPruning useBrokerPruning useIndexBasedDistinctOperator useLeafServerForIntermediateStage useLiteMode
useMSEToFillEmptyResponseSchema usePhysicalOptimizer usePlannerRules useScanReorderOpt useSpools
vectorExactRerank vectorUseBoundedQueue vectorUseRelativeDistance workloadName
"""


@dataclass(frozen=True, slots=True)
class OptionKind:
    """The valid values of an option. accepted: completes the sentence "The query option x must be …"."""

    accepted: str
    accepts: Callable[[str], bool]


def _whole(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 19 else None


def _number_from(least: int) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        number = _whole(text)
        return number is not None and least <= number <= _LONG_MAX

    return accepts


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _one_of(choices: tuple[str, ...]) -> OptionKind:
    folded = {choice.lower() for choice in choices}
    return OptionKind(" or ".join(choices), lambda text: text.lower() in folded)


def _skips(text: str) -> bool:
    """Whether a text is `column=kind,kind&column=kind`, or empty."""
    parts = [part.partition("=") for part in text.split("&") if part]
    return all(
        column.strip() and {kind.strip().lower() for kind in kinds.split(",")} <= {*SKIPPABLE} for column, _, kinds in parts
    )


_FLAG = _one_of(("true", "false"))
_KINDS: dict[str, OptionKind] = {
    **dict.fromkeys(_FLAGS.split(), _FLAG),
    **dict.fromkeys(_POSITIVE.split(), OptionKind("a whole number greater than 0", _number_from(1))),
    **dict.fromkeys(_INTEGERS.split(), OptionKind("a whole number", _number_from(-_LONG_MAX))),
    "vectorDistanceThreshold": OptionKind("a number", _is_number),
    **{name: _one_of(choices) for name, choices in _CHOICES.items()},
    SKIP_INDEXES: OptionKind(f"of the form column=kind,kind&column=kind with kinds of {', '.join(SKIPPABLE)}", _skips),
    **dict.fromkeys([*_TEXTS.split(), *_HINTS.split()], OptionKind("a text", lambda text: True)),
}
_NAMES = {name.lower(): name for name in _KINDS}
OPTIONS = tuple(_KINDS)

NO_EFFECT = frozenset([*_STEERING_NOTHING.split(), *_HINTS.split()])
"""Options that are validated but have no effect; responses warn of them."""


def option_name(name: str) -> str:
    """Return the canonical spelling of an option; unknown names are unchanged."""
    return _NAMES.get(name.lower(), name)


def check_options(options: Mapping[str, str]) -> None:
    """Raise QueryError for an invalid value of an option; unknown options accept any."""
    for name, value in options.items():
        kind = _KINDS.get(name)
        if kind is not None and not kind.accepts(value.strip()):
            raise QueryError(ErrorCode.SQL_PARSING, f"The query option {name} must be {kind.accepted}, not '{value}'")


def unknown_options(options: Iterable[str]) -> list[str]:
    """Return the unknown names among options, each with a similar known one, if any."""
    return [f"'{name}'.{nearest(name, _KINDS)}" for name in options if name not in _KINDS]


def skipped_indexes(options: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return, by column, the kinds of indexes that a query must not use."""
    parts = [part.partition("=") for part in options.get(SKIP_INDEXES, "").split("&") if part]
    return {column.strip(): frozenset(kind.strip().lower() for kind in kinds.split(",")) for column, _, kinds in parts}


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return a true/false option."""
    value = options.get(name)
    return default if value is None else value.strip().lower() == "true"


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """Return a numeric option; `check_options` has validated it."""
    value = options.get(name)
    return default if value is None else int(value)
