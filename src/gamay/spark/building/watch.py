"""The progress of a group of Spark jobs, from Spark's status tracker."""

import contextvars
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.spark.building.progress import JobProgress, shown_progress

POLL_SECONDS = 0.2
_GROUPS = itertools.count(1)
_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


def new_group() -> str:
    """Return a unique name for a group of jobs."""
    return f"gamay-{next(_GROUPS)}"


class Watch:
    """The number of tasks of a job group, and of those that are done. context: a SparkContext."""

    def __init__(self, context: Any, group: str, what: str, progress: JobProgress) -> None:
        self._tracker = context.statusTracker()
        self._group = group
        self._what = what
        self._progress = progress
        self._total = 1

    def tell(self) -> None:
        """Update the display with the number of tasks done, once there are tasks. Raises the errors of the display."""
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getJobIdsForGroup(self._group)]
        stages = {stage for job in jobs if job for stage in job.stageIds}
        found = [info for info in map(self._tracker.getStageInfo, sorted(stages)) if info]
        if total := sum(info.numTasks for info in found):
            self._total = total
            self._progress.update(self._what, sum(info.numCompletedTasks for info in found), total)

    def end(self) -> None:
        """Update the display to show all tasks as done, including those that Spark skipped."""
        self._progress.update(self._what, self._total, self._total)


@contextmanager
def progress(spark: Any, what: str = "Spark jobs") -> Iterator[None]:
    """Show the progress of the Spark jobs that this thread starts within the block, such as a `DataFrame.write`.

    Shows a bar in a notebook or on a terminal, and logs elsewhere. Raises InvalidConfigError on Spark Connect, whose client
    shows its own bars.
    """
    if not hasattr(spark, "_jsc"):
        raise InvalidConfigError(
            "Spark Connect shows bars itself; what else is to be told of them is given to spark.registerProgressHandler"
        )
    context = spark.sparkContext
    before = [(name, context.getLocalProperty(name)) for name in (_GROUP, _DESCRIPTION)]
    group, done = new_group(), threading.Event()
    context.setJobGroup(group, what)
    with shown_progress() as display:
        watch = Watch(context, group, what, display)

        def poll() -> None:
            while not done.wait(POLL_SECONDS):
                watch.tell()

        # copies the context, which holds the notebook cell that shows the bar
        thread = threading.Thread(target=contextvars.copy_context().run, args=(poll,), name="gamay-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            for name, value in before:
                context.setLocalProperty(name, value)
        watch.tell()
        watch.end()
