"""A local SparkSession: all cores of this machine, without web UI, with little output."""

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.errors import InvalidConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_OPTIONS, _JAVA_DEFAULTS = "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"
_JAVA_ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def local_session(
    app_name: str = "gamay",
    *,
    cores: int | None = None,
    work_dir: str | Path | None = None,
    configs: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> "SparkSession":
    """Return the running SparkSession, or start a local one; under `spark-submit`, that of the submitted application.

    If `SPARK_REMOTE` is set, it is a Spark Connect session at that address.

    cores: None for all. work_dir: the folder for Spark's shuffles and tables; None for Spark's default.
    configs: additional Spark settings, which override the defaults set here.
    Raises InvalidConfigError if PySpark is not installed or Java cannot be started.
    """
    ignore_pandas_warning()
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidConfigError("the pipeline needs PySpark: pip install 'gamay[spark]'") from error
    from gamay.spark.session.gateway import launch

    builder = SparkSession.builder.appName(app_name)
    if "SPARK_REMOTE" in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of workers on this machine, for `local`
        return builder.config(map={**_SQL_SETTINGS, **(configs or {})}).getOrCreate()
    if not is_submitted():
        # workers of local mode must run this interpreter, whatever `python3` is on the path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        settings = {"spark.master": f"local[{cores or '*'}]", **_settings(work_dir), **(configs or {})}
        settings[_JAVA_OPTIONS] = _java_options(settings)
        if settings["spark.master"].startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
            settings = {**_LOCAL_SETTINGS, **settings}
        launch(settings)
        configs = settings
    for name, value in (configs or {}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session


def ignore_pandas_warning() -> None:
    """Suppress PySpark's warnings about pandas at import and at calls with Arrow data, which is never converted to it."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def is_submitted() -> bool:
    """Return whether `spark-submit` started this process and thus sets master and settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def active_session() -> "SparkSession | None":
    """Return the SparkSession of this process, if there is one."""
    ignore_pandas_warning()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    return SparkSession.getActiveSession()


LOOPBACK = "127.0.0.1"
ARROW_BYTES, NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1)
"""A setting and the value that keeps Spark from summing the sizes of all columns for each row sent to Python, which would
take a third of the time of sending."""
_LOCAL_SETTINGS = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.python.daemon.module": "gamay.spark.session.daemon",
}
_SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    ARROW_BYTES: NO_LIMIT,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.shuffle.partitions": "16",
}


def _java_options(settings: Mapping[str, str]) -> str:
    """Return the Java options: the user's, and a garbage collector unless they name one, as Java rejects two."""
    own = settings.get(_JAVA_OPTIONS, "")
    options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}", "-Darrow.enable_unsafe_memory_access=true"]
    users = (own, settings.get(_JAVA_DEFAULTS, ""), *(os.environ.get(name, "") for name in _JAVA_ENVIRONMENT))
    if not any(re.search(r"-XX:\+Use\w+GC\b", text) for text in users):
        options.append("-XX:+UseParallelGC")  # G1 has write barriers, which trade throughput for shorter pauses
    return " ".join([*options, own])


def _settings(work_dir: str | Path | None) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        **_SQL_SETTINGS,
        "spark.python.worker.reuse": "true",
    }
    if work_dir is not None:
        folder = Path(work_dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        settings["spark.local.dir"] = str(folder)
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
    return settings
