"""Rewrite rules, which do not change a plan's rows; each module has one, from `Plan` to `Plan`.

`optimized` applies them in order: push conditions down to the tables, reorder joins so that each has a condition, delegate
groups of one table to the single-table engine, push limits down, prune unused columns.
"""

from gamay.relational.plan import Plan
from gamay.relational.rules.columns import pruned_columns
from gamay.relational.rules.conditions import pushed_conditions
from gamay.relational.rules.joins import connected_joins
from gamay.relational.rules.leaves import with_leaf_groups
from gamay.relational.rules.limits import pushed_limits


def optimized(plan: Plan, *, null_handling: bool) -> Plan:
    """Return the optimized plan. null_handling: whether leaves distinguish nulls from default values."""
    grouped = with_leaf_groups(connected_joins(pushed_conditions(plan)), null_handling=null_handling)
    return pruned_columns(pushed_limits(grouped, null_handling=null_handling))
