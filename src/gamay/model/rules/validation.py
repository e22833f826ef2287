"""Validation of schemas and table configs; both functions report all problems.

The rules are in `schema_rules`, `table_rules`, `ingestion_rules`, `index_rules`,
`startree_rules`, `task_rules` and `upsert_rules`; those about two halves of a table in `hybrid_rules`.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from gamay.base.errors import InvalidConfigError
from gamay.model.parse import raise_problems
from gamay.model.rules.indexes import INDEX_RULES
from gamay.model.rules.ingestion import INGESTION_RULES
from gamay.model.rules.schema import schema_problems
from gamay.model.rules.startrees import STAR_TREE_RULES
from gamay.model.rules.subject import ColumnsOf, TableSubject
from gamay.model.rules.table import TABLE_RULES
from gamay.model.rules.tasks import TASK_RULES
from gamay.model.rules.upsert import UPSERT_RULES
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.tier_overwrites import overwritten, overwritten_tiers

__all__ = ["ColumnsOf", "validate_schema", "validate_table_config"]

_RULES = (*TABLE_RULES, *INGESTION_RULES, *INDEX_RULES, *STAR_TREE_RULES)


def validate_schema(schema: Schema, *, columns_of: ColumnsOf | None = None) -> None:
    """Raise InvalidConfigError listing all problems.

    columns_of: text of an expression -> the columns it reads, raising a GamayError if it cannot be parsed; without it the
    texts of transform functions are not checked.
    """
    raise_problems(f"schema '{schema.name}'", list(schema_problems(schema, columns_of)))


def validate_table_config(
    config: TableConfig, schema: Schema, *, columns_of: ColumnsOf | None = None, volatile_in: ColumnsOf | None = None,
    stored: TableConfig | None = None, with_tasks: bool = True, with_keys: bool = True,
) -> None:  # fmt: skip
    """Raise InvalidConfigError listing everything that is wrong with a config, given the table's schema.
    Raise InvalidConfigError listing all problems of a config, given the table's schema.
        columns_of: as in `validate_schema`, for the texts of filters, transforms and aggregations; volatile_in: the same for
        the functions in them that depend on time or randomness. stored: the table's present config, if it has one.
        with_tasks: whether the settings of maintenance tasks are checked; with_keys: upsertConfig and dedupConfig.
    """
    subject = TableSubject(config, schema, columns_of, volatile_in, stored)
    rules = (*_RULES, *(UPSERT_RULES if with_keys else ()), *(TASK_RULES if with_tasks else ()))
    problems = [problem for rule in rules for problem in rule(subject)]
    problems += [problem for tier in overwritten_tiers(config) for problem in _problems_of_tier(subject, tier, problems)]
    raise_problems(f"the table config of '{config.typed_name}'", problems)


def _problems_of_tier(subject: TableSubject, tier: str, known: Collection[str]) -> Iterator[str]:
    """Yield the problems of a config that occur only with a tier's overwrites."""
    try:
        config = overwritten(subject.config, tier)
    except InvalidConfigError as error:
        yield str(error)
        return
    for rule in INDEX_RULES:
        for problem in rule(replace(subject, config=config)):
            if problem not in known:
                yield f"with the tierOverwrites of '{tier}', {problem}"
