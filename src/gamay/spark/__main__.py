"""`python -m gamay.spark JOB`, also the application for `spark-submit`: runs a job spec and prints a report.

On a cluster, executors need Gamay installed, or packed (`gamay spark pack`) and shipped with the job; master and settings
are those of the command.

`spark-submit` finds Spark by the first `python3` on the path, so activate the environment first:

    . .venv/bin/activate
    spark-submit --master spark://host:7077 "$(python -c 'import gamay.spark.__main__ as m; print(m.__file__)')" job.yaml
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from gamay.base.errors import GamayError
from gamay.ingest.job.spec import JobSpec, values_of
from gamay.spark.jobs import run_with_summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; return the exit status: 0 on complete success."""
    parser = argparse.ArgumentParser(prog="gamay.spark", description="Runs a batch ingestion job on Spark.")
    parser.add_argument("job", help="the job spec: YAML, JSON or .properties")
    parser.add_argument("--values", nargs="*", default=[], metavar="NAME=VALUE", help="for ${NAME} in the job spec")
    parser.add_argument("--property-file", help="a properties file for ${NAME} in the job spec")
    parser.add_argument("--job-type", help="what a .properties job does")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="write what the job did there, as JSON")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for name in ("py4j", "httpx"):  # every call and every request
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        values = values_of(given.values)
        job = JobSpec.load(given.job, values=values, property_file=given.property_file, job_type=given.job_type)
        report = run_with_summary(job, given.summary)
    except GamayError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{report}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
