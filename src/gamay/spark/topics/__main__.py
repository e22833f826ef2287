"""`python -m gamay.spark.topics`, also the application for `spark-submit`: repartitions a topic into that of a table."""

import argparse
import sys
from collections.abc import Sequence

from gamay.base.errors import GamayError
from gamay.client.controller import ControllerClient
from gamay.spark.session.local import active_session, local_session
from gamay.spark.topics.job import BAD_MESSAGES, repartition


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the query until it ends; return the exit status: 0 on success."""
    parser = argparse.ArgumentParser(prog="gamay.spark.topics", description="Repartitions a topic into that of a table.")
    parser.add_argument("--controller", required=True, metavar="URL")
    parser.add_argument("--token", help="the Authorization header, such as 'Bearer …'")
    parser.add_argument("--table", required=True, help="a REALTIME table whose segmentPartitionConfig tells the partitions")
    parser.add_argument("--from-topic", required=True, metavar="TOPIC", help="the topic whose messages are put in place")
    parser.add_argument("--checkpoint", required=True, metavar="FOLDER", help="where the query notes where it has been")
    parser.add_argument("--source", nargs="*", default=[], metavar="KEY=VALUE", help="stream config keys of --from-topic")
    parser.add_argument("--folder", help="where the embedded log keeps its topics: 'streams' in the data folder")
    parser.add_argument("--partition-by", metavar="COLUMN", help="another column than that of the primary key")
    parser.add_argument("--messages-per-batch", type=int, metavar="N", help="how many a batch has, about")
    parser.add_argument("--bad-messages", choices=BAD_MESSAGES, default="fail", help="what is done with what is no row")
    parser.add_argument("--allow-data-loss", action="store_true", help="go on where messages are gone before they are read")
    parser.add_argument("--follow", metavar="INTERVAL", help="go on, a batch each interval ('10 seconds')")
    given = parser.parse_args(arguments)
    wrong = [text for text in given.source if "=" not in text]
    if wrong:
        parser.error(f"--source: '{wrong[0]}' is not KEY=VALUE")
    running = active_session()
    spark = running or local_session("gamay-repartition")
    try:
        with ControllerClient(given.controller, auth_token=given.token) as client:
            query = repartition(
                spark, client, given.table, given.from_topic, given.checkpoint,
                source=dict(text.split("=", 1) for text in given.source), folder=given.folder,
                partition_by=given.partition_by, messages_per_batch=given.messages_per_batch,
                bad_messages=given.bad_messages, fail_on_data_loss=not given.allow_data_loss,
                trigger={"processingTime": given.follow} if given.follow else None,
            )  # fmt: skip
        return _wait(query)
    except GamayError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        if running is None:
            spark.stop()


def _wait(query: object) -> int:
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()  # type: ignore[attr-defined]
    except StreamingQueryException as error:
        told = [line for line in str(error).splitlines() if line.startswith("gamay.")]
        sys.stderr.write(f"error: {told[-1].partition(': ')[2] if told else error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
