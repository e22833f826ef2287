"""What users do on Spark, by Spark Connect: in a process of its own, for one of Python has sessions of one kind only.

    SPARK_REMOTE=sc://HOST:PORT python -m tests.spark.connect_paths CONTROLLER FOLDER

Prints one line of JSON: the result of each path, by name.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark import dry_run, local_session, register, run_job, sql, write_dataframe

HOUR_MS, T0 = 3_600_000, 1_700_000_000_000


class Paths:
    """A session at Spark Connect, a cluster, and a folder."""

    def __init__(self, controller: str, folder: Path) -> None:
        self.spark = local_session("gamay-connect", configs={"spark.sql.session.timeZone": "UTC"})
        self.controller, self.folder = controller, folder
        register(self.spark)

    def frame(self, first: int, last: int, add: int = 0) -> Any:
        numbers = self.spark.range(first, last, 1, 2)
        return numbers.selectExpr(
            f"id + {add} AS n", "concat('c', id % 5) AS city", f"timestamp_millis({T0} + id * {HOUR_MS}) AS ts"
        )

    def read(self, **options: str) -> Any:
        return self.spark.read.format("gamay").options(controller=self.controller, table="t", **options).load()

    def save(self, rows: Any, mode: str, **options: str) -> None:
        rows.write.format("gamay").mode(mode).options(controller=self.controller, table="t", **options).save()

    def append(self) -> int:
        self.save(self.frame(0, 100), "append", createTable="true", timeColumn="ts")
        return int(self.read().count())

    def filtered(self) -> list[int]:
        return sorted(row.n for row in self.read().where("city = 'c1' AND n < 20").select("n").collect())

    def replace_where(self) -> list[int]:
        where = f"ts >= {T0 + 10 * HOUR_MS} AND ts < {T0 + 20 * HOUR_MS}"
        self.save(self.frame(10, 20, add=1000), "overwrite", replaceWhere=where)
        row = self.read().selectExpr("count(*) AS rows", "sum(n) AS total").collect()[0]
        return [int(row.rows), int(row.total)]

    def pushed_query(self) -> list[list[Any]]:
        rows = sql(self.spark, "SELECT city, COUNT(*) AS c FROM t GROUP BY city ORDER BY city", self.controller).collect()
        return [list(row) for row in rows]

    def views(self) -> int:
        assert register(self.spark, self.controller) == ["t"]
        return int(self.spark.sql("SELECT COUNT(*) AS c FROM t").collect()[0].c)

    def dry(self) -> int:
        return sum(row["rows"] for row in dry_run(self.frame(0, 30), self.controller, "t").collect())

    def stream(self) -> int:
        files = self.folder / "files"
        self.frame(500, 540).write.parquet(str(files))
        rows = self.spark.readStream.schema("n LONG, city STRING, ts TIMESTAMP").parquet(str(files))
        writer = rows.writeStream.format("gamay").options(controller=self.controller, table="t")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True)
        writer.start().awaitTermination()
        return int(self.read().where("n >= 500 AND n < 600").count())

    def feed(self) -> int:
        rows = self.spark.readStream.format("gamay").options(controller=self.controller, table="t").load()
        out = self.folder / "feed"
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "feed-checkpoint"))
        writer.option("path", str(out)).trigger(availableNow=True).start().awaitTermination()
        return int(self.spark.read.parquet(str(out)).count())

    def job(self) -> int:
        source = self.folder / "in"
        source.mkdir()
        (source / "a.csv").write_text("n,city,ts\n" + "".join(f"{n},c,{T0 + n}\n" for n in range(700, 730)))
        spec = {
            "jobType": "SegmentCreationAndTarPush", "inputDirURI": str(source), "outputDirURI": str(self.folder / "out"),
            "recordReaderSpec": {"dataFormat": "csv"}, "tableSpec": {"tableName": "t"},
            "pinotClusterSpecs": [{"controllerURI": self.controller}],
        }  # fmt: skip
        report = run_job(spec, self.spark)
        return int(report.build.rows_written) if report.build else -1

    def archives(self) -> int:
        schema = {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "n", "dataType": "LONG"}],
        }
        frame = self.frame(0, 40).select("n", "city")
        parsed, config = Schema.from_json(schema).value, TableConfig.offline("t")
        return int(write_dataframe(frame, parsed, config, str(self.folder / "archives")).rows_written)


def main() -> None:
    paths = Paths(sys.argv[1], Path(sys.argv[2]))
    steps: list[Callable[[], Any]] = [
        paths.append, paths.filtered, paths.replace_where, paths.pushed_query, paths.views, paths.dry, paths.feed,
        paths.stream, paths.job, paths.archives,
    ]  # fmt: skip
    found: dict[str, Any] = {}
    for step in steps:
        try:
            found[step.__name__] = step()
        except Exception as error:  # noqa: BLE001 - told with the others
            found[step.__name__] = f"{type(error).__name__}: {str(error)[:500]}"
    print(json.dumps(found), flush=True)
    paths.spark.stop()


if __name__ == "__main__":
    main()
