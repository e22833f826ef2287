"""The executors of tasks: one module for each task type, with a function `run`.

A module's name is that of its type: `upsert_compaction` does `UpsertCompactionTask`. In: one subtask and its attempt
(`gamay.minion.context.TaskContext`). Out: changes of segments, and a sentence on what came of it. Modules are found by being
here, and imported when the first such task comes; start with `upsert_compaction`.
"""
