"""Rewrites of a plan that do not change its rows; each module is one, and takes and returns a `Plan`.

`optimized` applies them in order: conditions go down to the tables, joins are put into an order in which each has a
condition, groups of one table are left to the engine for single tables, limits go down, columns that nobody reads go away.
"""

from gamay.relational.plan import Plan
from gamay.relational.rules.columns import pruned_columns
from gamay.relational.rules.conditions import pushed_conditions
from gamay.relational.rules.joins import connected_joins
from gamay.relational.rules.leaves import with_leaf_groups
from gamay.relational.rules.limits import pushed_limits


def optimized(plan: Plan, *, null_handling: bool) -> Plan:
    """Return the plan that is executed. null_handling: whether leaves tell nulls from default values."""
    grouped = with_leaf_groups(connected_joins(pushed_conditions(plan)), null_handling=null_handling)
    return pruned_columns(pushed_limits(grouped, null_handling=null_handling))
