"""Running one Python function for each of some tasks on executors, and telling how far they are."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from gamay.spark.building.progress import JobProgress
from gamay.spark.building.watch import POLL_SECONDS, Watch, new_group

T = TypeVar("T")
_RESULT = "result string"


class LocalEngine:
    """Threads of this process in place of Spark's executors: for small jobs, which end before Java has started."""

    def run(
        self, tasks: Sequence[T], function: Callable[[T], str], what: str, progress: JobProgress, parallelism: int
    ) -> list[str]:
        """Return the text that `function` makes of each task; the first failure ends what has not begun, and is raised."""
        progress.update(what, 0, len(tasks))
        with ThreadPoolExecutor(parallelism or os.cpu_count(), "gamay-build") as pool:
            try:
                results = []
                for result in pool.map(function, tasks):
                    results.append(result)
                    progress.update(what, len(results), len(tasks))
                return results
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def run_tasks(
    spark: Any, tasks: Sequence[T], function: Callable[[T], str], what: str, progress: JobProgress, parallelism: int = 0
) -> list[str]:
    """Return the text that `function` makes of each task, in their order; each task is a Spark task of its own.

    spark: a session, or a `LocalEngine`. parallelism: how many run at once, at most; 0 takes all cores.
    """
    if not tasks:
        return []
    if isinstance(spark, LocalEngine):
        return spark.run(tasks, function, what, progress, parallelism)
    groups = min(len(tasks), parallelism) if parallelism else len(tasks)
    shipped = list(tasks)
    if hasattr(spark, "_jsc"):  # an RDD needs no plan and no code made of it, which costs Java more than all else of a job
        rdd = spark.sparkContext.parallelize(range(len(tasks)), groups).map(lambda i: function(shipped[i]))
        return collect(spark, rdd, what, progress)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [function(shipped[i]) for i in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.string())})

    frame = spark.range(0, len(tasks), 1, groups).mapInArrow(run, _RESULT)
    return [row.result for row in collect(spark, frame, what, progress)]


def collect(spark: Any, frame: Any, what: str, progress: JobProgress) -> list[Any]:
    """Collect a DataFrame, or an RDD, while telling how many of its tasks are done; a failure is raised as Spark raised it.

    What `progress` raises cancels the job, and is raised.
    """
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    if context is None:
        return list(frame.collect())
    outcome: dict[str, Any] = {}
    group = new_group()

    def work() -> None:
        try:
            context.setJobGroup(group, what)  # of the jobs that this thread begins
            outcome["rows"] = frame.collect()
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread
            outcome["error"] = error

    worker = threading.Thread(target=work, name="gamay-collect", daemon=True)
    worker.start()
    watch = Watch(context, group, what, progress)
    try:
        while worker.is_alive():
            worker.join(POLL_SECONDS)
            watch.tell()
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if "error" in outcome:
        raise outcome["error"]
    watch.end()
    return list(outcome["rows"])
