"""Application of the ingestion config: order, conversions, failures, nested input."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.functions.registry import _load_all, _scalars
from gamay.ingest.read.readers import open_reader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig


def apply(schema, table, rows, kind=None):
    pipeline = Pipeline(schema, table)
    batch = pa.RecordBatch.from_pylist(rows, kind) if isinstance(rows, list) else rows
    return pipeline.apply(batch).to_pylist(), pipeline


def transforms(**functions):
    return [{"columnName": c, "transformFunction": f} for c, f in functions.items()]


def test_columns_of_the_schema_in_its_order(schema, table):
    rows, pipeline = apply(schema(b="INT", a="STRING", gone="LONG"), table(), [{"extra": 1, "a": 5, "b": "7"}])
    assert rows == [{"b": 7, "a": "5", "gone": None}]
    assert pipeline.stats.rows_written == 1


def test_transforms_fill_what_is_missing_in_order_of_dependency(schema, table):
    config = table(transformConfigs=transforms(c="b + 1", b="a * 2"))
    rows, _ = apply(schema(a="INT", b="LONG", c="LONG"), config, [{"a": "1"}, {"a": "2"}])
    assert [r["c"] for r in rows] == [3, 5]
    rows, _ = apply(schema(a="INT", b="LONG", c="LONG"), config, [{"a": "1", "b": "10"}, {"a": "2", "b": None}])
    assert [(r["b"], r["c"]) for r in rows] == [(10, 11), (4, 5)]


def test_intermediate_columns_are_dropped(schema, table):
    config = table(transformConfigs=transforms(tmp="a + 1", b="tmp * 10"))
    rows, _ = apply(schema(a="INT", b="LONG"), config, [{"a": 1}])
    assert rows == [{"a": 1, "b": 20}]


def test_transform_of_the_schema(table):
    document = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "b", "dataType": "LONG", "transformFunction": "a + 1"}]}
    assert apply(Schema.from_json(document).value, table(), [{"a": 1}])[0] == [{"b": 2}]


def test_filter_drops_what_it_is_true_for_and_sees_transformed_columns(schema, table):
    config = table(filterConfig={"filterFunction": "b > 10"}, transformConfigs=transforms(b="a * 2"))
    rows, pipeline = apply(schema(a="INT", b="LONG"), config, [{"a": "1"}, {"a": "6"}, {"a": None}])
    assert [r["a"] for r in rows] == [1, None]
    assert (pipeline.stats.rows_read, pipeline.stats.rows_filtered, pipeline.stats.rows_written) == (3, 1, 2)


def test_filtered_rows_need_not_be_convertible(schema, table):
    config = table(filterConfig={"filterFunction": "kind = 'x'"})
    rows, _ = apply(schema(a="INT"), config, [{"a": "bad", "kind": "x"}, {"a": "1", "kind": "y"}])
    assert rows == [{"a": 1}]


def test_a_value_that_does_not_fit_is_named(schema, table):
    with pytest.raises(RecordError, match="input, row 2: column 'a': 'x' is not a valid INT"):
        apply(schema(a="INT"), table(), [{"a": "1"}, {"a": "x"}])


def test_continue_on_error_makes_it_null_and_counts(schema, table):
    rows, pipeline = apply(
        schema(a="INT", b="INT"), table(continueOnError=True), [{"a": "x", "b": "y"}, {"a": "1", "b": "2"}]
    )
    assert rows == [{"a": None, "b": None}, {"a": 1, "b": 2}]
    assert (pipeline.stats.values_failed, pipeline.stats.rows_incomplete) == (2, 1)
    assert [str(e) for e in pipeline.errors] == [
        "input, row 1: column 'a': 'x' is not a valid INT",
        "input, row 1: column 'b': 'y' is not a valid INT",
    ]


def test_rows_with_a_failed_value_can_be_dropped(schema, table):
    config = table(filterConfig={"filterFunction": "a = '9'"})
    pipeline = Pipeline(schema(a="INT", b="INT"), config, drop_failed=True)
    rows = [{"a": "1"}, {"a": "x", "b": "y"}, {"a": "9", "b": "z"}, {"a": "3"}]
    assert [row["a"] for row in pipeline.apply(pa.RecordBatch.from_pylist(rows)).to_pylist()] == [1, 3]
    assert pipeline.dropped == {1: "column 'a': 'x' is not a valid INT"}
    assert (pipeline.stats.rows_dropped, pipeline.stats.rows_written, pipeline.stats.rows_filtered) == (1, 2, 1)
    pipeline.apply(pa.RecordBatch.from_pylist(rows[:1]))
    assert pipeline.dropped == {}


def test_positions_survive_batches_filters_and_bad_lines(schema, table, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,1\nbroken\n2,2\n3,x\n")
    config = table(continueOnError=True, filterConfig={"filterFunction": "a = 1"})
    pipeline = Pipeline(schema(a="INT", b="INT"), config)
    reader = open_reader(str(path), "csv", continue_on_error=True)
    rows = [row for batch in conformed_batches(reader, pipeline) for row in batch.to_pylist()]
    assert rows == [{"a": 2, "b": 2}, {"a": 3, "b": None}]
    assert [e.position for e in reader.errors] == ["record 2"]
    assert [e.position for e in pipeline.errors] == ["record 4"]


def test_multi_value_text_is_cut_only_for_multi_value_columns(schema, table, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\nx;y,x;y\n")
    pipeline = Pipeline(schema(a="STRING[]", b="STRING"), table())
    assert next(conformed_batches(open_reader(str(path), "csv"), pipeline)).to_pylist() == [{"a": ["x", "y"], "b": "x;y"}]


def test_text_is_cut_at_nul_and_maximum_length(schema, table):
    columns = {
        "cut": {"dataType": "STRING", "maxLength": 3},
        "kept": {"dataType": "STRING", "maxLength": 3, "maxLengthExceedStrategy": "NO_ACTION"},
        "none": {"dataType": "STRING", "maxLength": 3, "maxLengthExceedStrategy": "SUBSTITUTE_DEFAULT_VALUE"},
        "many": {"dataType": "STRING", "maxLength": 3, "singleValueField": False},
    }
    row = {"cut": "äöüß", "kept": "abcd\0e", "none": "abcd", "many": ["abcde", "x"]}
    rows, pipeline = apply(schema(**columns), table(), [row, {"cut": "äöü"}])
    assert rows[0] == {"cut": "äöü", "kept": "abcd", "none": None, "many": ["abc", "x"]}
    assert rows[1]["cut"] == "äöü"
    assert (pipeline.stats.values_trimmed, pipeline.stats.rows_sanitised) == (4, 1)
    strict = schema(a={"dataType": "STRING", "maxLength": 3, "maxLengthExceedStrategy": "ERROR"})
    with pytest.raises(RecordError, match="row 2: column 'a': the value is longer than 3"):
        apply(strict, table(), [{"a": "abc"}, {"a": "abcd"}])


def test_only_the_text_of_a_slice_is_searched_for_nul(schema, table, monkeypatch):
    whole = pa.table(
        {"a": ["x\0y", "ok", None, "", "z\0", "fine", "a\0\0"], "b": [["p"], ["q\0r"], [], None, ["s"], ["t"], ["u"]]}
    )
    pipeline = Pipeline(schema(a="STRING", b="STRING[]"), table())
    expected = pipeline.apply(whole.to_batches()[0], "x").to_pylist()
    found = [row for batch in whole.to_batches(max_chunksize=2) for row in pipeline.apply(batch, "x").to_pylist()]
    assert found == expected
    assert [row["a"] for row in found] == ["x", "ok", None, "", "z", "fine", "a"]
    monkeypatch.setattr("gamay.ingest.transform.sanitise.pc.find_substring", None)
    (clean,) = pa.table({"a": whole["a"].slice(1, 3), "b": whole["b"].slice(3, 3)}).to_batches()
    assert pipeline.apply(clean, "x").num_rows == 3


def test_rows_whose_text_was_cut_are_counted_unless_they_are_dropped(schema, table):
    error = {"dataType": "STRING", "maxLength": 3, "maxLengthExceedStrategy": "ERROR"}
    many = {"dataType": "STRING", "maxLength": 3, "singleValueField": False}
    pipeline = Pipeline(schema(error=error, many=many), table(), drop_failed=True)
    columns = {"error": ["a\0b", "abcd\0", "x", "abcd"], "many": [["abcd", "a\0bcde"], ["y"], ["ok"], ["too long"]]}
    rows = pipeline.apply(pa.record_batch(columns)).to_pylist()
    assert rows == [{"error": "a", "many": ["abc", "a"]}, {"error": "x", "many": ["ok"]}]
    assert pipeline.dropped.keys() == {1, 3}
    assert pipeline.stats.rows_sanitised == 1


def test_row_time_check(schema, table):
    columns = schema(ts={"dataType": "LONG", "format": "1:MILLISECONDS:EPOCH"})
    rows = [{"ts": 1706783400000}, {"ts": 5}, {"ts": None}]
    assert [r["ts"] for r in apply(columns, table("ts"), rows)[0]] == [1706783400000, 5, None]
    with pytest.raises(RecordError, match="row 2: column 'ts': the time 5 is not in 1971 to 2071"):
        apply(columns, table("ts", rowTimeValueCheck=True), rows)
    lenient = table("ts", rowTimeValueCheck=True, continueOnError=True)
    assert [r["ts"] for r in apply(columns, lenient, rows)[0]] == [1706783400000, None, None]


def test_older_time_field_with_conversion(table):
    document = {
        "schemaName": "t",
        "timeFieldSpec": {
            "incomingGranularitySpec": {"name": "secs", "dataType": "LONG", "timeType": "SECONDS"},
            "outgoingGranularitySpec": {"name": "days", "dataType": "INT", "timeType": "DAYS"},
        },
    }
    rows, _ = apply(Schema.from_json(document).value, table(), [{"secs": "1706783400"}])
    assert rows == [{"days": 19754}]


def test_nested_input_made_flat(schema, table):
    config = table(complexTypeConfig={"fieldsToUnnest": ["items"], "prefixesToRename": {"user.": "u_"}})
    columns = schema(id="INT", u_name="STRING", **{"items.k": "STRING", "items.tags": "STRING", "list": "INT[]"})
    rows = [
        {
            "id": 1,
            "user": {"name": "a"},
            "items": [{"k": "x", "tags": [{"z": 1}]}, {"k": "y", "tags": None}],
            "list": [1, 2],
        },
        {"id": 2, "user": {"name": "b"}, "items": [], "list": None},
    ]
    out, _ = apply(columns, config, rows)
    assert [(r["id"], r["u_name"], r["items.k"], r["items.tags"], r["list"]) for r in out] == [
        (1, "a", "x", '[{"z":1}]', [1, 2]),
        (1, "a", "y", None, [1, 2]),
        (2, "b", None, None, None),
    ]


def test_nested_json_files_made_flat(schema, table, tmp_path):
    path = tmp_path / "data.json"
    path.write_text('{"a": {"b": {"c": 1}}, "l": [{"x": 1}, {"x": 2}]}\n{"a": {"b": {"c": 2}}, "l": []}\n')
    config = table(complexTypeConfig={"fieldsToUnnest": ["l"], "delimiter": "_"})
    pipeline = Pipeline(schema(a_b_c="INT", l_x="INT"), config)
    rows = next(conformed_batches(open_reader(str(path), "json"), pipeline)).to_pylist()
    assert rows == [{"a_b_c": 1, "l_x": 1}, {"a_b_c": 1, "l_x": 2}, {"a_b_c": 2, "l_x": None}]


def test_a_column_that_is_an_object_stays_beside_its_parts(schema, table, tmp_path):
    """As in the examples of Pinot's documentation: the scores of students, of whom there are several in a record."""
    path = tmp_path / "rows.json"
    path.write_text('{"students": [{"id": "1", "scores": {"maths": 9}}, {"id": "2", "scores": {"maths": 8, "art": 7}}]}\n')
    config = table(complexTypeConfig={"fieldsToUnnest": ["students"]})
    names = {"students.id": "STRING", "students.scores": "JSON", "students.scores.maths": "INT"}
    rows = next(conformed_batches(open_reader(str(path), "json"), Pipeline(schema(**names), config))).to_pylist()
    assert [row["students.scores.maths"] for row in rows] == [9, 8]
    assert [json.loads(row["students.scores"])["maths"] for row in rows] == [9, 8]


def test_nested_values_do_not_depend_on_those_of_other_records(schema, table, tmp_path):
    path = tmp_path / "rows.json"
    records = [
        {"k": 1, "a": {"b": 1}, "l": [{"x": 1}, {"y": [2]}]}, {"k": 2, "a": {"b": "x"}, "l": [{"x": "z"}, 5]},
        {"k": 3, "a": {"b": 1.5}, "l": {"x": 7}}, {"k": 4, "a": 5}, {"k": 5, "a": {"b": 9007199254740993}},
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, records)))
    columns = schema(k="INT", **{"a.b": "STRING", "l.x": "STRING", "l.y": "INT[]"})
    pipeline = Pipeline(columns, table(complexTypeConfig={"fieldsToUnnest": ["l"]}))
    rows = next(conformed_batches(open_reader(str(path), "json"), pipeline)).to_pylist()
    assert [(row["k"], row["a.b"], row["l.x"], row["l.y"]) for row in rows] == [
        (1, "1", "1", None), (1, "1", None, [2]), (2, "x", "z", None), (2, "x", None, None), (3, "1.5", "7", None),
        (4, None, None, None), (5, "9007199254740993", None, None),
    ]  # fmt: skip


def test_a_renamed_prefix_meets_other_values_of_the_same_record_only(schema, table):
    config = table(complexTypeConfig={"prefixesToRename": {"a.": ""}})
    objects = pa.array(['{"b": 1}', None, '{"b": 3}'], pa.json_(pa.string()))
    batch = pa.RecordBatch.from_arrays([objects, pa.array([None, 2, None])], ["a", "b"])
    assert apply(schema(b="INT"), config, batch)[0] == [{"b": 1}, {"b": 2}, {"b": 3}]
    both = pa.RecordBatch.from_arrays([objects, pa.array([None, None, 4])], ["a", "b"])
    with pytest.raises(RecordError, match=r"renaming 'a\.b' to 'b'"):
        apply(schema(b="INT"), config, both)


def test_text_among_objects_of_a_text_column_has_no_quotes(schema, table, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('{"a": {"b": 1}}\n{"a": "x"}\n{"a": 5}\n{"a": null}\n')
    rows = next(conformed_batches(open_reader(str(path), "json"), Pipeline(schema(a="STRING"), table()))).to_pylist()
    assert [row["a"] for row in rows] == ['{"b":1}', "x", "5", None]


def test_lists_in_text_become_rows(schema, table):
    enrichment = {
        "enricherType": "generateColumn",
        "properties": {"fieldToFunctionMap": {"recordArray": "jsonStringToListOrMap(data)"}},
        "preComplexTypeTransform": True,
    }
    config = table(enrichmentConfigs=[enrichment], complexTypeConfig={"fieldsToUnnest": ["recordArray"], "delimiter": "||"})
    records = [{"key": "a", "data": '[{"name": "r1"}, {"name": "r2"}]'}, {"key": "b", "data": "no list"}]
    assert apply(schema(**{"key": "STRING", "recordArray||name": "STRING"}), config, records)[0] == [
        {"key": "a", "recordArray||name": "r1"},
        {"key": "a", "recordArray||name": "r2"},
        {"key": "b", "recordArray||name": None},
    ]


def test_source_types_and_generated_columns(schema, table):
    config = table(
        sourceFieldConfigs=[{"name": "n", "dataType": "LONG"}],
        enrichmentConfigs=[{"enricherType": "generateColumn", "properties": {"fieldToFunctionMap": {"g": "n + 1"}}}],
        transformConfigs=transforms(a="g * 10"),
    )
    assert apply(schema(a="LONG"), config, [{"n": "4"}])[0] == [{"a": 50}]


@pytest.mark.parametrize(
    ("ingestion", "message"),
    [
        ({"transformConfigs": transforms(a="b", b="a")}, "depend on each other in a circle: a -> b -> a"),
        ({"transformConfigs": transforms(a="a + 1")}, "takes its own result 'a' as an argument"),
        ({"transformConfigs": transforms(a="Groovy({x}, x)")}, "Groovy is not supported"),
        ({"transformConfigs": transforms(a="1 +")}, "the transform of column 'a'"),
        ({"enrichmentConfigs": [{"enricherType": "clpEnricher"}]}, "'clpEnricher' is not supported"),
        ({"sourceFieldConfigs": [{"name": "a", "dataType": "LNG"}]}, "Did you mean 'LONG'"),
        ({"schemaConformingTransformerConfig": {"x": 1}}, "is not supported"),
    ],
)
def test_configs_that_cannot_be_applied(schema, table, ingestion, message):
    with pytest.raises(InvalidConfigError, match=message):
        Pipeline(schema(a="INT"), table(**ingestion))


def test_unknown_function(schema, table):
    with pytest.raises(InvalidConfigError, match="the transform of column 'a'"):
        apply(schema(a="INT"), table(transformConfigs=transforms(a="noSuchFunction(b)")), [{"b": 1}])


def test_empty_batch(schema, table):
    columns = schema(a="INT", b="STRING[]", c="JSON")
    config = table(transformConfigs=transforms(a="x + 1"), filterConfig={"filterFunction": "a > 5"})
    assert apply(columns, config, pa.RecordBatch.from_pydict({"x": pa.array([], pa.int32())}))[0] == []


# -- a naive pipeline, row by row

values = st.none() | st.integers(-5, 15).map(str) | st.sampled_from(["x", " 3 ", "2.0", "2.5"])
rows_of_values = st.lists(
    st.fixed_dictionaries({"a": values, "b": values, "t": st.none() | st.text("ab\0", max_size=6)}), max_size=25
)


def whole(text):
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None


def naive(row):
    a, b = whole(row["a"]), whole(row["b"])
    filled = row["b"] if row["b"] is not None else a + 100 if a is not None else None
    b = whole(filled) if isinstance(filled, str) else filled
    if a is not None and a > 8:
        return None
    text = row["t"]
    return {"a": a, "b": b, "t": None if text is None else text.split("\0")[0][:3]}


@settings(max_examples=150, deadline=None)
@given(rows_of_values)
def test_like_a_naive_pipeline(rows):
    document = {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "INT"},
            {"name": "b", "dataType": "LONG"},
            {"name": "t", "dataType": "STRING", "maxLength": 3},
        ],
    }
    config = TableConfig.offline("t").to_json()
    config["ingestionConfig"] = {
        "continueOnError": True,
        "filterConfig": {"filterFunction": "a > 8"},
        "transformConfigs": transforms(b="a + 100"),
    }
    kind = pa.schema([("a", pa.string()), ("b", pa.string()), ("t", pa.string())])
    out, pipeline = apply(Schema.from_json(document).value, TableConfig.from_json(config).value, rows, kind)
    expected = [row for row in map(naive, rows) if row is not None]
    assert out == expected
    assert pipeline.stats.rows_filtered == len(rows) - len(expected)


def test_json_output_is_json(schema, table):
    rows, _ = apply(schema(j="JSON"), table(), [{"j": {"a": [dt.date(2024, 1, 1)], "b": b"\x01"}}])
    assert json.loads(rows[0]["j"]) == {"a": ["2024-01-01"], "b": "01"}


def test_functions_that_no_row_can_be_given_to_are_refused_and_others_taken(schema, table):
    _load_all()
    refused = {name: function for name, function in _scalars.items() if function.not_of_rows}
    assert {"textscore", "lookup", "sleep", "reqid", "vectorsimilarity", "vectorsimilarityradius", "insubquery"} <= set(
        refused
    )
    for name, function in _scalars.items():
        call = f"{name}({', '.join(['a'] * function.min_args)})"
        if "(" in name or name in ("case", "in", "cast", "extract", "item", "groovy", "and", "or", "not", "between", "like"):
            continue  # no names of calls, or read in other ways
        config = table(transformConfigs=transforms(b=call))
        if name in refused:
            with pytest.raises(InvalidConfigError, match="the transform of column 'b': Function "):
                Pipeline(schema(a="STRING", b="STRING"), config)
        else:
            Pipeline(schema(a="STRING", b="STRING"), config)


def test_types_are_checked_where_the_schema_tells_them(schema, table):
    fields = {"a": "INT", "b": "STRING"}
    Pipeline(schema(**fields), table(transformConfigs=transforms(b="arrayToString(x, '-')"))).check()
    Pipeline(schema(**fields), table(filterConfig={"filterFunction": "a"})).check()
    for config, told in (
        ({"transformConfigs": transforms(b="mapValue(a, 'x', 'y')")}, "'mapValue': arguments 1 and 3"),
        ({"filterConfig": {"filterFunction": "concat(b, a)"}}, "is not a condition, its result is string"),
    ):
        with pytest.raises(InvalidConfigError, match=told):
            Pipeline(schema(**fields), table(**config)).check()
