"""Names of segments."""

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.base.ids import CountingIds
from gamay.ingest.job.segment_names import SegmentFacts, segment_name_generator
from gamay.model.table.table_config import TableConfig

MAY_1, MAY_2 = 1714521600000, 1714608000000
TEMPLATE = "${filePathPattern:\\1}_x_${filePathPattern:\\2}"
FACTS = SegmentFacts(3, "/data/2024/part-1.csv", 19844, 19845, MAY_1, MAY_2 + 3_600_000)


def generator(schema, kind, configs, batch=None, **columns):
    document = TableConfig.offline("trips").to_json()
    document["segmentsConfig"]["timeColumnName"] = "ts"
    if batch:
        document["ingestionConfig"] = {"batchIngestionConfig": batch}
    columns = columns or {"ts": {"dataType": "INT", "format": "1:DAYS:EPOCH"}}
    config = TableConfig.from_json(document).value
    return segment_name_generator(kind, configs, schema(**columns), config, clock=ManualClock(MAY_1), ids=CountingIds())


@pytest.mark.parametrize(
    ("kind", "configs", "expected"),
    [
        (None, {}, "trips_OFFLINE_19844_19845_3"),
        ("SIMPLE", {"segment.name.postfix": "p"}, "trips_OFFLINE_19844_19845_p_3"),
        ("simple", {"exclude.time.in.segment.name": "true"}, "trips_OFFLINE_3"),
        ("simple", {"append.uuid.to.segment.name": "true"}, "trips_OFFLINE_19844_19845_3_id-1"),
        ("simple", {"segment.name.prefix": "x"}, "x_19844_19845_3"),
        ("normalizedDate", {}, "trips_OFFLINE_2024-05-01_2024-05-02_3"),
        ("normalizeddate", {"exclude.sequence.id": "true", "segment.name.prefix": "x"}, "x_2024-05-01_2024-05-02"),
        (None, {"segment.name": "one"}, "one"),
        ("inputFile", {"file.path.pattern": ".*/(\\d+)/(.+)\\.csv", "segment.name.template": TEMPLATE}, "2024_x_part-1"),
        ("inputFile", {"file.path.pattern": "nothing", "segment.name.template": "x"}, "data_2024_part-1_csv"),
        (None, {"segment.partitionId": "4"}, "uploaded__trips__4__20240501T0000Z__3"),
        ("uploadedRealtime", {"segment.partitionId": "4", "segment.uploadTimeMs": str(MAY_2), "segment.name.postfix": "s",
                              "segment.name.prefix": "up"}, "up__trips__4__20240502T0000Z__s"),
    ],
)  # fmt: skip
def test_names(schema, kind, configs, expected):
    assert generator(schema, kind, configs).name(FACTS) == expected


def test_frequency_and_refresh(schema):
    hourly = generator(schema, "normalizedDate", {}, {"segmentIngestionFrequency": "HOURLY"})
    assert hourly.name(FACTS) == "trips_OFFLINE_2024-05-01-00_2024-05-02-01_3"
    refresh = generator(schema, "normalizedDate", {}, {"segmentIngestionType": "REFRESH"})
    assert refresh.name(FACTS) == "trips_OFFLINE_3"


def test_inferred_from_the_time_column(schema):
    columns = {"ts": {"dataType": "STRING", "format": "1:DAYS:SIMPLE_DATE_FORMAT:yyyy/MM/dd"}}
    assert generator(schema, None, {}, **columns).name(FACTS) == "trips_OFFLINE_2024-05-01_2024-05-02_3"


def test_without_time(schema):
    assert generator(schema, "simple", {}).name(SegmentFacts(0)) == "trips_OFFLINE_0"
    assert generator(schema, "normalizedDate", {}).name(SegmentFacts(0)) == "trips_OFFLINE_0"


@pytest.mark.parametrize(
    ("kind", "configs", "message"),
    [
        ("simpel", {}, "Did you mean 'simple'"),
        ("simple", {"segment.name.prefx": "x"}, "Did you mean 'segment.name.prefix'"),
        ("fixed", {}, "needs 'segment.name'"),
        ("simple", {"exclude.time.in.segment.name": "yes"}, "must be true or false"),
        ("uploadedRealtime", {"segment.partitionId": "x"}, "must be a number"),
        ("inputFile", {"file.path.pattern": "(", "segment.name.template": "x"}, "is not a regular expression"),
    ],
)
def test_mistakes(schema, kind, configs, message):
    with pytest.raises(InvalidConfigError, match=message):
        generator(schema, kind, configs)


def test_illegal_characters(schema):
    with pytest.raises(InvalidConfigError, match="contains '/'"):
        generator(schema, "simple", {}).name(SegmentFacts(0, "", "2024/05/01", "2024/05/02"))
