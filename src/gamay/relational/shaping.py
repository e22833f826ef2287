"""Renames or converts the columns of a plan."""

from collections.abc import Sequence

from gamay.functions.registry import ValueType
from gamay.relational.names import Context
from gamay.relational.plan import Node, Project
from gamay.relational.typing import converted


def with_types(context: Context, node: Node, types: Sequence[ValueType]) -> Node:
    """Return a plan with its columns converted to types, in order."""
    if [each.type for each in node.fields] == list(types):
        return node
    fields = tuple(context.field(each.name, to) for each, to in zip(node.fields, types, strict=True))
    columns = tuple(converted(each.column, each.type, to[0]) for each, to in zip(node.fields, types, strict=True))
    return Project(node, fields, columns)


def with_names(context: Context, node: Node, names: Sequence[str]) -> Node:
    """Return a plan with its first columns renamed."""
    all_names = [*names, *(each.name for each in node.fields[len(names) :])]
    if [each.name for each in node.fields] == all_names:
        return node
    fields = tuple(context.field(name, each.type) for name, each in zip(all_names, node.fields, strict=True))
    return Project(node, fields, tuple(each.column for each in node.fields))
