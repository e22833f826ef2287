"""The executors of tasks: one module for each task type, with a function `run`.

The name of a module is that of its type: `upsert_compaction` executes `UpsertCompactionTask`. Input: one subtask and
its attempt (`gamay.minion.context.TaskContext`). Output: changes of segments, and a sentence about the result.
Modules of this package are discovered, and imported for the first such task; start with `upsert_compaction`.
"""
