"""The generators of tasks: one module for each task type, whose `GENERATOR` implements `gamay.controller.tasks.spi`.

Input: the settings of a table and the records of its segments. Output: subtasks, executed by a module of
`gamay.minion.tasks`. Modules of this package are discovered; start with `upsert_compaction`.
"""
