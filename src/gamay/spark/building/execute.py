"""Execution of a Python function for each of several tasks on executors, with progress."""

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
    """Threads of this process instead of Spark's executors, for small jobs that end before Java has started."""

    def run(
        self, tasks: Sequence[T], function: Callable[[T], str], what: str, progress: JobProgress, parallelism: int
    ) -> list[str]:
        """Return the text that `function` returns for each task; the first failure cancels pending tasks, and is raised."""
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
    """Return the text that `function` returns for each task, in order; each task is a separate Spark task.

    spark: a session, or a `LocalEngine`. parallelism: maximum number of concurrent tasks; 0 uses all cores.
    """
    if not tasks:
        return []
    if isinstance(spark, LocalEngine):
        return spark.run(tasks, function, what, progress, parallelism)
    groups = min(len(tasks), parallelism) if parallelism else len(tasks)
    shipped = list(tasks)
    if hasattr(spark, "_jsc"):  # an RDD avoids query planning and code generation, the main costs of a job in Java
        rdd = spark.sparkContext.parallelize(range(len(tasks)), groups).map(lambda i: function(shipped[i]))
        return collect(spark, rdd, what, progress)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [function(shipped[i]) for i in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.string())})

    frame = spark.range(0, len(tasks), 1, groups).mapInArrow(run, _RESULT)
    return [row.result for row in collect(spark, frame, what, progress)]


def collect(spark: Any, frame: Any, what: str, progress: JobProgress) -> list[Any]:
    """Collect a DataFrame or RDD, reporting the number of finished tasks; raises Spark's failures.

    An exception of `progress` cancels the job, and is raised.
    """
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    if context is None:
        return list(frame.collect())
    outcome: dict[str, Any] = {}
    group = new_group()

    def work() -> None:
        try:
            context.setJobGroup(group, what)  # for the jobs that this thread starts
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
