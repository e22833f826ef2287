"""Rewrites of a plan that do not change its rows; each module is one, and takes and returns a `Plan`.

`optimized` applies them in order: conditions go down to the tables, columns that nobody reads go away, groups of one table
are left to the engine for single tables.
"""

from gamay.relational.plan import Plan
from gamay.relational.rules.columns import pruned_columns
from gamay.relational.rules.conditions import pushed_conditions
from gamay.relational.rules.leaves import with_leaf_groups


def optimized(plan: Plan, *, null_handling: bool) -> Plan:
    """Return the plan that is executed. null_handling: whether leaves tell nulls from default values."""
    return with_leaf_groups(pruned_columns(pushed_conditions(plan)), null_handling=null_handling)
