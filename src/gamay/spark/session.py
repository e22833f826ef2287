"""A local SparkSession: all cores of this machine, no web page, little said."""

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.errors import InvalidConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


def local_session(
    app_name: str = "gamay",
    *,
    cores: int | None = None,
    work_dir: str | Path | None = None,
    configs: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> "SparkSession":
    """Return the running SparkSession, or start a local one.

    cores: None for all. work_dir: where Spark may write (shuffles, its log settings); None for Spark's own choice.
    configs: further Spark settings, which win over the ones made here.
    Raises InvalidConfigError when PySpark is not installed, or Java cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidConfigError("the pipeline needs PySpark: pip install 'gamay[spark]'") from error
    # said at every call of a function that takes Arrow data, which none of ours turns into pandas
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # executors of local mode are processes of this interpreter, whatever `python3` is on the path
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).master(f"local[{cores or '*'}]")
    for name, value in {**_settings(work_dir, log_level), **(configs or {})}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if type(error).__name__ in ("PySparkRuntimeError", "FileNotFoundError", "Py4JNetworkError", "Py4JJavaError"):
            raise InvalidConfigError(
                f"Spark cannot be started ({error}); it needs Java 17 or newer, on Debian: apt-get install "
                f"openjdk-17-jre-headless"
            ) from error
        raise
    session.sparkContext.setLogLevel(log_level)
    return session


def active_session() -> "SparkSession | None":
    """Return the SparkSession of this process, if there is one."""
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _settings(work_dir: str | Path | None, log_level: str) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.shuffle.partitions": "16",
        "spark.python.worker.reuse": "true",
    }
    if work_dir is not None:
        folder = Path(work_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        log_file = folder / "spark-log4j2.properties"
        log_file.write_text(_QUIET.format(level=log_level.lower()))
        settings["spark.local.dir"] = str(folder)
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
        settings["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile=file:{log_file}"
    return settings
