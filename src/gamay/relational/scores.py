"""Text scores, which depend on all texts of a segment: each call of textScore becomes a column that the table computes."""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from gamay.functions.expression import Call, Column
from gamay.functions.scalar.text.text_score import NAME, score_of
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.relational.names import Context
from gamay.relational.plan import Field, Node, Scan, with_children


def score_column(context: Context, node: exp.Expr, call: Call) -> Column:
    """Return the column for a call of textScore; raises QueryError if no table can compute it."""
    column = call.args[0] if call.args else None
    if not isinstance(column, Column):
        score_of(call, (DataType.UNKNOWN, False))  # raises the error
    assert isinstance(column, Column)
    shown = context.named(column)
    named = Call(call.name, (shown, *call.args[1:]))
    score_of(named, context.types[column.name])
    if column.name not in context.of_tables:
        what = f"'{to_text(shown)}' is not a column of a table here; compute the score in the subquery that reads the table"
        raise context.error(node, f"Function '{NAME}': {what}")
    made = context.scores.get(call)
    if made is None:
        made = context.scores[call] = context.field(to_text(named), (DataType.DOUBLE, False))
    return made.column


def with_scores(node: Node, scores: Mapping[Call, Field]) -> Node:
    """Return an operator whose scans compute the scores of their own columns."""
    if not scores:
        return node
    if not isinstance(node, Scan):
        return with_children(node, lambda child: with_scores(child, scores))
    names = node.column_names
    own = {call: made for call, made in scores.items() if call.args[0] in names}
    computed = [(made.id, Call(call.name, (names[call.args[0]], *call.args[1:]))) for call, made in own.items()]
    return replace(node, fields=tuple(dict.fromkeys((*node.fields, *own.values()))), computed=tuple(computed))
