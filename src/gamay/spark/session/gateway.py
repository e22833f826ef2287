"""Starting the Java process of a local session, without the messages that every start prints."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any

from gamay.base.errors import InvalidConfigError

JAVA_MAJOR_MIN = 17
HOW_TO_GET_JAVA = "install it (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"
_CHATTER = (
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"Setting default log level to",
    b"To adjust logging level",
)


def launch(settings: Mapping[str, str]) -> None:
    """Start the Java process that PySpark uses in this Python process, unless there is one.

    Raises InvalidConfigError if Java is missing or too old.
    """
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.errors import PySparkRuntimeError

    if SparkContext._gateway is not None:
        return
    java = java_path()
    start: Any = java_gateway.launch_gateway  # untyped
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    read_end, write_end = os.pipe()
    said = os.fdopen(read_end, "rb")
    try:
        gateway = start(conf, {"stderr": write_end})
    except PySparkRuntimeError as error:
        os.close(write_end)
        with said:
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
        raise InvalidConfigError(_failure(java, last)) from error
    os.close(write_end)
    threading.Thread(target=_pass_on, args=(said,), name="gamay-spark-stderr", daemon=True).start()
    SparkContext._ensure_initialized(gateway=gateway)


def has_ended(session: Any) -> bool:
    """Return whether a SparkSession is unusable: Spark stopped it, or its Java process died."""
    return _java_has_died() or bool(session.sparkContext._jsc.sc().isStopped())


def end_session(session: Any) -> None:
    """Stop a SparkSession; if its Java process died, reset PySpark's state so that the next session starts a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if not _java_has_died():
        session.stop()
        return
    session.sparkContext._jsc = None  # else it would be called to stop
    session.sparkContext.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SparkContext._gateway = SparkContext._jvm = None


def _java_has_died() -> bool:
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _failure(java: str, last: list[str]) -> str:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found and int(found[1]) < JAVA_MAJOR_MIN:
        return f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and {java} is Java {found[1]}: {HOW_TO_GET_JAVA}"
    return f"Spark cannot be started with {java}: {last[0] if last else 'it ended without a word'}"


def java_path() -> str:
    """Return the path of the Java that Spark's scripts use; raises InvalidConfigError if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java and os.access(java, os.X_OK):
        return java
    where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
    raise InvalidConfigError(f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and {where}: {HOW_TO_GET_JAVA}")


def _pass_on(stream: IO[bytes]) -> None:
    """Copy lines to standard error, except those that every start of Spark prints."""
    target: Any = sys.__stderr__
    with stream:
        for line in stream:
            if not line.startswith(_CHATTER) and target is not None:
                target.buffer.write(line)
                target.flush()
