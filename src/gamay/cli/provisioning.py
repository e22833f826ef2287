"""`gamay admin realtime-provisioning`: the hosts that a table consuming a stream needs."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gamay.base.errors import InvalidConfigError
from gamay.cli.json_file import read_json

if TYPE_CHECKING:
    from gamay.server.provisioning.plan import Cell, Load, Sample

_HOURS_OF_UNIT = {"HOURS": 1, "DAYS": 24}


def realtime_provisioning(
    table_config_file: Annotated[Path, typer.Option(help="The table config, as JSON.")],
    num_partitions: Annotated[int, typer.Option(help="Partitions of the stream.", min=1)],
    ingestion_rate: Annotated[float | None, typer.Option(help="Rows a second of each partition.")] = None,
    schema_file: Annotated[Path | None, typer.Option(help="The schema, as JSON; required with a sample segment.")] = None,
    sample_completed_segment_dir: Annotated[Path | None, typer.Option(help="A completed segment of such a table.")] = None,
    period_sample_segment_consumed: Annotated[
        str | None, typer.Option(help="How long the sample consumed, such as 12h; instead of a rate.")
    ] = None,
    schema_with_metadata_file: Annotated[
        Path | None, typer.Option(help="A schema with cardinality, averageLength, numValuesPerEntry of each column.")
    ] = None,
    num_rows: Annotated[int, typer.Option(help="Number of rows to generate for a schema with metadata.", min=1000)] = 10_000,
    retention_hours: Annotated[int | None, typer.Option(help="How long completed segments are kept.", min=1)] = None,
    push_frequency: Annotated[str | None, typer.Option(help="hourly, daily, weekly or monthly; instead.")] = None,
    num_hosts: Annotated[str, typer.Option(help="Numbers of hosts, separated by commas.")] = "2,4,6,8,10,12,14,16",
    num_hours: Annotated[str, typer.Option(help="Hours that a segment consumes.")] = "2,3,4,5,6,7,8,9,10,11,12",
    max_usable_host_memory: Annotated[str, typer.Option(help="Memory of each host, such as 48G.")] = "48G",
) -> None:
    """Print memory of hosts and size of segments, by number of hosts and hours that a segment consumes."""
    from gamay.model.schema.schema import Schema
    from gamay.model.table.table_config import TableConfig
    from gamay.model.units import parse_data_size, parse_period
    from gamay.server.provisioning.plan import Load, measure, sample_of_segment
    from gamay.server.provisioning.sample_rows import made_up_rows, split_characteristics

    config = TableConfig.from_json(read_json(table_config_file)).value
    cardinalities: dict[str, int] = {}
    if (sample_completed_segment_dir is None) == (schema_with_metadata_file is None):
        raise InvalidConfigError("give either --sample-completed-segment-dir or --schema-with-metadata-file")
    if schema_with_metadata_file is not None:
        document, known = split_characteristics(read_json(schema_with_metadata_file))
        schema = Schema.from_json(document).value
        rows = made_up_rows(schema, known, num_rows, time.time_ns() // 1_000_000)
        cardinalities = {name: own["cardinality"] for name, own in known.items()}
    else:
        if schema_file is None or sample_completed_segment_dir is None:
            raise InvalidConfigError("--schema-file is missing: the schema of the sample segment")
        schema = Schema.from_json(read_json(schema_file)).value
        rows = sample_of_segment(sample_completed_segment_dir, schema)
    if ingestion_rate is None and period_sample_segment_consumed is not None and sample_completed_segment_dir is not None:
        ingestion_rate = rows.num_rows / max(1, parse_period(period_sample_segment_consumed) / 1000)
    if ingestion_rate is None or not ingestion_rate > 0:
        raise InvalidConfigError("--ingestion-rate is missing: rows a second of each partition, more than 0")
    with tempfile.TemporaryDirectory(prefix="gamay-provisioning-") as folder:
        sample = measure(schema, config, rows, Path(folder), cardinalities)
    kept = _retention_hours(retention_hours, push_frequency, config)
    load = Load(num_partitions, ingestion_rate, config.replication, kept, parse_data_size(max_usable_host_memory))
    _print(sample, load, _numbers("--num-hosts", num_hosts), _numbers("--num-hours", num_hours))


def _retention_hours(hours: int | None, push_frequency: str | None, config: Any) -> int:
    from gamay.server.provisioning.plan import RETENTION_HOURS

    if hours is not None:
        return hours
    if push_frequency is not None:
        if push_frequency.lower() not in RETENTION_HOURS:
            raise InvalidConfigError(f"--push-frequency is one of {', '.join(RETENTION_HOURS)}, not '{push_frequency}'")
        return RETENTION_HOURS[push_frequency.lower()]
    value, unit = config.segments.retention_time_value, (config.segments.retention_time_unit or "").upper()
    if value is not None and value.isdigit() and unit in _HOURS_OF_UNIT:
        return int(value) * _HOURS_OF_UNIT[unit]
    raise InvalidConfigError("--retention-hours or --push-frequency is missing, and the table config has no retention")


def _numbers(option: str, text: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    if not numbers or not all(number.isascii() and number.isdigit() and int(number) > 0 for number in numbers):
        raise InvalidConfigError(f"{option}: '{text}' is no list of numbers, such as 2,4,6")
    return [int(number) for number in numbers]


def _print(sample: "Sample", load: "Load", hosts: list[int], hours: list[int]) -> None:
    from gamay.model.units import format_data_size
    from gamay.server.provisioning.plan import plan

    cells = {(h, n): plan(sample, load, n, h) for h in hours for n in hosts}
    tables: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("Memory used per host", lambda cell: format_data_size(cell.active_bytes)),
        ("Optimal segment size", lambda cell: format_data_size(cell.segment_bytes)),
        ("Consuming memory per host", lambda cell: format_data_size(cell.consuming_bytes)),
        ("Total number of segments queried per host", lambda cell: str(cell.segments)),
    )
    typer.echo(f"Measured on {sample.rows} rows; {load.replicas} replicas, completed segments kept {load.retention_hours} h")
    for title, show in tables:
        typer.echo(f"\n{title}\nnumHosts --> " + "".join(f"{n:<10}|" for n in hosts))
        for h in hours:
            texts = [show(cells[h, n]) if cells[h, n].fits else "NA" for n in hosts]
            typer.echo(f"{h:>3} -------> " + "".join(f"{text:<10}|" for text in texts))
