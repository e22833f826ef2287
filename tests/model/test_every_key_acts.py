"""Every key that a user may write is read by code that uses it, or reported as without effect.

Which keys are read is found in the source: an access of the attribute, outside the modules that parse, validate or report,
on an object that holds the key's section. Such objects are recognised by the names of attributes and parameters, by the
values assigned to them, and by their annotations. A key that is read nowhere must be named by the warnings of a config that
has it.
"""

import ast
import dataclasses
import typing
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.model.conftest import EVERY_TABLE_KEY
from tests.model.test_empty_strings import EVERY_JOB_KEY

import gamay
from gamay.ingest.job.spec import JobSpec
from gamay.ingest.stream.config import FlushThresholds, OffsetAutoReset, StreamConfig
from gamay.model.parse import Key, keys_of
from gamay.model.rules.upsert_changes import deprecated_keys
from gamay.model.rules.without_effect import NO_EFFECT, without_effect
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.roles.settings import RoleSettings
from gamay.sql.options import option_values
from gamay.sql.options.option_values import NULL_HANDLING, OPTIONS, SKIP_INDEXES

_SOURCE = Path(gamay.__file__).parent
_ALSO_HELD_AS = {
    "UpsertConfig": {"settings", "UpsertSettings"},
    "DedupConfig": {"settings", "DedupSettings"},
    "TableConfig": {"config", "_config", "table_config", "parsed"},
    "JobSpec": {"job", "spec"},
    "Schema": {"schema", "_schema"},
    "FieldSpec": {"spec", "field", "fields", "stored_fields"},
    "FlushThresholds": {"flush", "high_level_flush", "thresholds"},
    "OffsetAutoReset": {"reset", "offset_auto_reset"},
    "RoleSettings": {"settings", "self"},
    "StreamConfig": {"config", "_config", "topic", "topics", "stream", "stream_configs"},
}
"""Names of what holds a section, where no annotation in the same module says so."""

DESCRIPTIVE = {
    ("TableConfig", "metadata"), ("TableConfig", "description"), ("TableConfig", "tags"),
    ("MetadataConfig", "custom_configs"),
    ("Schema", "description"), ("Schema", "tags"), ("FieldSpec", "description"), ("FieldSpec", "tags"),
    ("FieldSpec", "field_id"), ("FieldSpec", "aliases"), ("FieldSpec", "metadata"), ("FieldSpec", "sample_value"),
    ("FieldSpec", "date_time_type"),
}  # fmt: skip
"""What is there to be shown: users' remarks."""

REFUSED = {
    ("SegmentsConfig", "crypter_class_name"),
    ("TierConfig", "storage_type"),  # has one value
    ("FieldSpec", "virtual_column_provider"),
    ("ForwardConfig", "codec_spec"),
}
"""Keys that validation refuses, or that have one possible value."""

_TOLD_AS = {
    "ifst": "FST index",
    "constraints": "constraintConfig",
}
"""How a warning calls a key where it does not give its name."""


def _names(node: ast.AST) -> set[str]:
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | _attributes(node)
    return named | {w for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str) for w in [n.value]}


def _attributes(node: ast.AST) -> set[str]:
    return {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _origins(tree: ast.AST) -> dict[str, set[str]]:
    """Return for each name of a module the names that it was assigned from, or annotated with."""
    found: dict[str, set[str]] = {}

    def note(target: ast.AST, source: ast.AST | None) -> None:
        for node in ast.walk(target) if source is not None else ():
            if isinstance(node, ast.Name):
                found.setdefault(node.id, set()).update(_names(typing.cast(ast.AST, source)))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                found.setdefault(node.attr, set()).update(_names(typing.cast(ast.AST, source)))

    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                note(target, node.value)
        elif isinstance(node, ast.NamedExpr):
            note(node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            note(node.target, node.iter)
        elif isinstance(node, ast.AnnAssign):
            note(node.target, node.annotation)
        elif isinstance(node, ast.arg) and node.annotation is not None:
            found.setdefault(node.arg, set()).update(_names(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found.setdefault(node.name, set()).update(_names(node.returns))
        elif isinstance(node, ast.ClassDef):
            found.setdefault("self", set()).add(node.name)
    return found


def _receiver(node: ast.AST) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


@cache
def _reads() -> dict[str, set[str]]:
    """Return, for each attribute that is read, the names of the objects it is read from."""
    found: dict[str, set[str]] = {}
    for path in sorted(_SOURCE.rglob("*.py")):
        if path.is_relative_to(_SOURCE / "model/rules") or path == _SOURCE / "model/parse.py":
            continue
        tree = ast.parse(path.read_text())
        origins = _origins(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names, near = {_receiver(node.value)}, {_receiver(node.value)}
                for _ in range(2):
                    near = {far for name in near for far in origins.get(name, ())} - names
                    names |= near
                found.setdefault(node.attr, set()).update(names)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                for argument in node.args[:1]:
                    if isinstance(argument, ast.Constant):  # read from the document itself
                        found.setdefault(str(argument.value), set()).add("get")
    return found


def _sections(root: type) -> dict[type, set[str]]:
    """Return the sections of a document, and the attributes that hold each."""
    found: dict[type, set[str]] = {root: set()}

    def classes(hint: Any) -> Iterator[type]:
        if isinstance(hint, type) and dataclasses.is_dataclass(hint) and keys_of(hint):
            yield hint
        for part in typing.get_args(hint):
            yield from classes(part)

    pending = [root]
    while pending:
        holder = pending.pop()
        hints = typing.get_type_hints(holder)
        for attribute in keys_of(holder):
            for cls in classes(hints[attribute]):
                if cls not in found:
                    pending.append(cls)
                found.setdefault(cls, set()).add(attribute)
    return found


def _unread(root: type) -> Iterator[tuple[type, str, Key]]:
    for cls, holders in _sections(root).items():
        names = holders | {cls.__name__} | _ALSO_HELD_AS.get(cls.__name__, set())
        for attribute, key in keys_of(cls).items():
            is_read = bool(_reads().get(attribute, set()) & names) or key.name in _reads()
            if not is_read and (cls.__name__, attribute) not in DESCRIPTIVE | REFUSED:
                yield cls, attribute, key


def _silent(root: type, sentences: str) -> list[str]:
    """Return the keys that no code reads, and that no warning names, neither directly nor by a section."""
    held = _sections(root)
    keys = {(cls, attribute): key for cls in held for attribute, key in keys_of(cls).items()}

    def told(cls: type, name: str, depth: int = 3) -> bool:
        if (_TOLD_AS.get(name) or name).lower() in sentences.lower():
            return True
        outer = [(c, key.name) for (c, attribute), key in keys.items() if attribute in held[cls]]
        return depth > 0 and any(told(c, holder, depth - 1) for c, holder in outer if c is not root or depth == 3)

    return [f"{cls.__name__}.{attribute} ({key.name})" for cls, attribute, key in _unread(root) if not told(cls, key.name)]


def test_every_key_of_a_table_config_is_read_or_named_in_warnings() -> None:
    document = deepcopy(EVERY_TABLE_KEY)
    document["query"]["disableGroovy"] = False
    document["tableIndexConfig"] |= {"segmentFormatVersion": "v1", "rangeIndexVersion": 1}
    document["tableIndexConfig"]["bloomFilterConfigs"]["tags"]["loadOnHeap"] = True
    config = TableConfig.from_json(document).value
    sentences = " ".join([*without_effect(config), *deprecated_keys(config)])
    assert _silent(TableConfig, sentences) == [], "build what they say, or add them to gamay.model.rules.without_effect"


def test_every_key_of_a_job_spec_is_read_or_named_in_warnings() -> None:
    sentences = " ".join(JobSpec.from_document(EVERY_JOB_KEY).warnings)
    assert _silent(JobSpec, sentences) == [], "build what they say, or add them to gamay.ingest.job.spec.NO_EFFECT"


@pytest.mark.parametrize("cls", [StreamConfig, Schema, FieldSpec, FlushThresholds, OffsetAutoReset, RoleSettings])
def test_what_is_read_from_other_keys_is_read_again(cls: type) -> None:
    names = {cls.__name__} | _ALSO_HELD_AS[cls.__name__]
    fields = [field.name for field in dataclasses.fields(cls) if (cls.__name__, field.name) not in DESCRIPTIVE | REFUSED]
    assert [name for name in fields if not _reads().get(name, set()) & names] == []


def test_every_query_option_is_read_or_listed_as_without_effect() -> None:
    texts = "".join(path.read_text() for path in sorted(_SOURCE.rglob("*.py")) if path.name != "option_values.py")
    own = {NULL_HANDLING, SKIP_INDEXES}  # which the module of the options reads itself
    assert {name for name in OPTIONS if f'"{name}"' not in texts} - own == option_values.NO_EFFECT


def test_what_is_said_to_have_no_effect_is_not_read() -> None:
    unread = {key.name for _, _, key in _unread(TableConfig)}
    assert [path for path in NO_EFFECT if path.rpartition(".")[2] not in unread] == []


def test_the_walk_finds_a_key_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = {name: holders for name, holders in _reads().items() if name not in ("sorted_columns", "sortedColumn")}
    monkeypatch.setitem(globals(), "_reads", lambda: reads)
    assert [attribute for cls, attribute, _ in _unread(TableConfig) if attribute == "sorted_columns"] == ["sorted_columns"]
