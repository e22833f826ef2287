"""The generators of tasks: one module for each task type, whose `GENERATOR` implements `gamay.controller.tasks.spi`.

In: the settings of a table and the records of its segments. Out: subtasks, whose executor is a module of
`gamay.minion.tasks`. Modules are found by being here; start with `upsert_compaction`.
"""
