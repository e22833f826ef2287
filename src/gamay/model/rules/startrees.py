"""Rules for `starTreeIndexConfigs`; each yields a sentence for every violation.

Dimensions and aggregated values are columns or expressions of columns; their types are checked when the tree is bound to the
schema (`gamay.query.startree.definition`).
"""

import re
from collections.abc import Iterator

from gamay.base.errors import GamayError, nearest
from gamay.model.index.indexing import StarTreeConfig
from gamay.model.index.timestamp_index import timestamp_column
from gamay.model.rules.subject import TableRule, TableSubject, duplicates, missing_column
from gamay.model.types import DataType

FUNCTIONS = (
    "COUNT", "COUNTMV", "MIN", "MAX", "SUM", "SUMMV", "SUMPRECISION", "AVG", "AVGMV", "MINMAXRANGE", "DISTINCTCOUNTBITMAP",
    "DISTINCTCOUNTHLL", "DISTINCTCOUNTRAWHLL", "DISTINCTCOUNTHLLPLUS", "DISTINCTCOUNTRAWHLLPLUS", "DISTINCTCOUNTULL",
    "DISTINCTCOUNTRAWULL", "DISTINCTCOUNTTHETASKETCH", "DISTINCTCOUNTRAWTHETASKETCH", "DISTINCTCOUNTTUPLESKETCH",
    "DISTINCTCOUNTRAWINTEGERSUMTUPLESKETCH", "SUMVALUESINTEGERSUMTUPLESKETCH", "AVGVALUEINTEGERSUMTUPLESKETCH",
    "DISTINCTCOUNTCPCSKETCH", "DISTINCTCOUNTRAWCPCSKETCH", "PERCENTILEEST", "PERCENTILERAWEST", "PERCENTILETDIGEST",
    "PERCENTILERAWTDIGEST", "PERCENTILEKLL", "PERCENTILERAWKLL",
)  # fmt: skip
_NAME = re.compile(r"\w+")


def _star_trees(subject: TableSubject) -> Iterator[str]:
    config, indexing = subject.config, subject.config.indexing
    if config.active_upsert is not None:
        for key, given in (
            ("starTreeIndexConfigs", bool(indexing.star_tree_configs)),
            ("enableDefaultStarTree", indexing.enable_default_star_tree),
        ):
            if given:
                yield f"{key} and upsertConfig exclude each other: a star-tree cannot forget replaced rows"
    for position, tree in enumerate(config.indexing.star_tree_configs):
        where = f"starTreeIndexConfigs[{position}]"
        if not tree.max_size_ratio > 0:
            yield f"{where}.maxSizeRatio is {tree.max_size_ratio}; it must be greater than 0"
        yield from _dimensions(subject, tree, where)
        yield from _aggregates(subject, tree, where)


def _dimensions(subject: TableSubject, tree: StarTreeConfig, where: str) -> Iterator[str]:
    dimensions = tree.dimensions_split_order
    if not dimensions:
        yield f"{where}.dimensionsSplitOrder is empty"
    for name in duplicates(dimensions):
        yield f"{where}.dimensionsSplitOrder has the column '{name}' more than once"
    for name in tree.skip_star_node_creation:
        if name not in dimensions:
            yield (
                f"{where}.skipStarNodeCreationForDimensions names '{name}', which is not in "
                f"dimensionsSplitOrder.{nearest(name, dimensions)}"
            )
    for name in dimensions:
        if _is_timestamp_column(subject, name):
            continue
        yield from _unreadable(subject, name, f"{where}.dimensionsSplitOrder")
        if name not in subject.schema:
            continue
        spec = subject.schema.field(name)
        if not spec.single_value:
            yield f"{where}.dimensionsSplitOrder names '{name}', a multi-value column"
        if spec.data_type is DataType.MAP:
            yield f"{where}.dimensionsSplitOrder names '{name}', a MAP, which a star-tree cannot have"


def _unreadable(subject: TableSubject, text: str, where: str) -> Iterator[str]:
    """Yield the problems of a column, or an expression, of a tree."""
    if text in subject.schema:
        return
    if _NAME.fullmatch(text):
        yield from filter(None, [missing_column(subject.schema, text, where)])
    if subject.columns_of is None or _NAME.fullmatch(text):
        return
    try:
        columns = subject.columns_of(text)
    except GamayError as error:
        yield f"{where} has '{text}', which is neither a column nor an expression: {error}"
        return
    if not columns:
        yield f"{where} has '{text}', which reads no column"
    for column in columns:
        yield from filter(None, [missing_column(subject.schema, column, f"{where}: '{text}'")])
    for function in subject.volatile_in(text) if subject.volatile_in else ():
        yield f"{where} has '{text}', and {function}() returns a different value each time"


def _is_timestamp_column(subject: TableSubject, name: str) -> bool:
    """Whether this is a column that a timestamp index derives, such as `$ts$DAY`."""
    derived = timestamp_column(name)
    declared = subject.config.field_config(derived.base) if derived else None
    return bool(derived and declared and declared.timestamp and derived.granularity in declared.timestamp.granularities)


def _aggregates(subject: TableSubject, tree: StarTreeConfig, where: str) -> Iterator[str]:
    if bool(tree.function_column_pairs) == bool(tree.aggregations):
        yield f"{where} needs exactly one of functionColumnPairs and aggregationConfigs"
    pairs: list[tuple[str, str]] = []
    for pair in tree.function_column_pairs:
        function, separator, column = pair.partition("__")
        if not separator:
            yield f"{where}.functionColumnPairs has '{pair}', which is not written like SUM__column"
            continue
        pairs.append((function, column))
    pairs.extend((a.aggregation_function, a.column_name or "*") for a in tree.aggregations)
    for name in duplicates(f"{function.upper().replace('_', '')}__{column}" for function, column in pairs):
        yield f"{where} has the aggregate '{name}' more than once"
    for function, column in pairs:
        folded = function.upper().replace("_", "")
        if folded not in FUNCTIONS:
            yield (
                f"{where}: a star-tree cannot keep the function '{function}'; it keeps "
                f"{', '.join(FUNCTIONS)}.{nearest(folded, FUNCTIONS)}"
            )
        if column == "*":
            if folded != "COUNT":
                yield f"{where}: the column '*' is only for COUNT, not {function}"
        else:
            yield from _unreadable(subject, column, where)
            if column in subject.schema and subject.schema.field(column).data_type is DataType.MAP:
                yield f"{where} aggregates '{column}', a MAP, which a star-tree cannot have"


STAR_TREE_RULES: tuple[TableRule, ...] = (_star_trees,)
