"""Maintenance tasks, their assignment to minions and their progress, as records in the metadata store.

A *queue* for each task type holds *jobs*, a job its *subtasks*. Minions lease subtasks and report the results; the lead
controller revokes those of dead minions and marks finished jobs. `machine` decides, `queue` writes.
"""
