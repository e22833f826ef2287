"""The process that PySpark's workers are forked from, with what they need already imported.

Importing NumPy, Arrow and the compiled kernels takes each worker about a second; forked from this daemon they have them.
`spark.python.daemon.module` names it in local sessions, where the executors certainly have Gamay installed.
"""

from pyspark.daemon import manager

import gamay.spark.building.segments  # for workers that build
import gamay.spark.reading.scan  # noqa: F401 - for workers that read

if __name__ == "__main__":
    manager()
