"""Maintenance tasks: what is to be done, who does it, and how far it has come; records in the metadata store.

A *queue* for each task type holds *jobs*, a job its *subtasks*. Minions lease subtasks and report what came of them; the
lead controller returns those of minions that died, and says when a job has ended. `machine` decides, `queue` writes.
"""
