"""Recommendations for a table that does not exist yet."""

from typing import Any

import pytest

from gamay.base.errors import InvalidConfigError
from gamay.query.advice.recommend import recommend

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING", "cardinality": 5000, "averageLength": 8},
        {"name": "kind", "dataType": "INT", "cardinality": 4},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "doc", "dataType": "JSON"},
        {"name": "url", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "price", "dataType": "DOUBLE"}],
}


def test_indexes_follow_the_conditions_and_their_weights() -> None:
    found = recommend(
        {
            "schema": SCHEMA,
            "queriesWithWeights": {
                "SELECT SUM(n) FROM t WHERE city = 'a' AND price > 3": 1,
                "SELECT SUM(n) FROM t WHERE kind = 3 AND tags = 'x'": 5,
                "SELECT COUNT(*) FROM t WHERE JSON_MATCH(doc, '\"$.a\" = 1') AND url LIKE '%x%y%'": 2,
                "SELECT COUNT(*) FROM t": 1,
                "SELECT nothing FROM t": 1,
            },
            "qps": 5,
        }
    )
    assert found["indexConfig"] == {
        "invertedIndexColumns": ["tags", "city"],
        "rangeIndexColumns": ["price"],
        "jsonIndexColumns": ["doc"],
        "textIndexColumns": [],
        "fstIndexColumns": ["url"],
        "compoundInvertedIndexConfigs": [],
        "sortedColumn": "kind",
        "bloomFilterColumns": ["city"],
        "noDictionaryColumns": ["n"],
        "starTreeIndexConfigs": [],  # of price and url it is not known how many values they have
    }
    assert found["partitionConfig"] == {"partitionDimension": "city"}
    flagged = found["flaggedQueries"]["flaggedQueries"]
    assert "Unknown columnName 'nothing'" in flagged["SELECT nothing FROM t"]["ERROR"]
    assert flagged["SELECT COUNT(*) FROM t"] == {"WARNING": "it has no filter, so it reads all rows"}
    assert len(flagged) == 2


def test_star_trees_are_of_columns_whose_size_is_known() -> None:
    queries = ["SELECT city, SUM(n) FROM t WHERE kind = 3 GROUP BY city", "SELECT MAX(price) FROM t WHERE kind IN (1, 2)"]
    found = recommend({"schema": SCHEMA, "queriesWithWeights": dict.fromkeys(queries, 1)})
    assert found["indexConfig"]["starTreeIndexConfigs"] == [
        {"dimensionsSplitOrder": ["kind", "city"], "functionColumnPairs": ["COUNT__*", "MAX__price", "SUM__n"]}
    ]


def test_compound_indexes_take_the_place_of_those_of_their_columns() -> None:
    sizes = {"city": 60, "kind": 40, "shop": 9, "rare": 5000, "any": None}
    specs = [{"name": name, "dataType": "STRING"} | ({"cardinality": n} if n else {}) for name, n in sizes.items()]

    def found(*conditions: str) -> Any:
        weights = {f"SELECT COUNT(*) FROM t WHERE {one}": len(conditions) - i for i, one in enumerate(conditions)}
        schema = {"schemaName": "t", "dimensionFieldSpecs": specs}
        indexing = recommend({"schema": schema, "queriesWithWeights": weights})["indexConfig"]
        compounds = [one["columns"] for one in indexing["compoundInvertedIndexConfigs"]]
        return compounds, indexing["sortedColumn"], indexing["invertedIndexColumns"]

    assert found("city = 'a' AND kind IN ('b', 'c')") == ([["city", "kind"]], "city", [])
    assert found("city = 'a' AND kind = 'b' AND shop = 'c'") == ([["city", "kind", "shop"]], "city", [])
    assert found("rare = 'a' AND city = 'b'") == ([], "rare", ["city"])  # one is selective alone
    assert found("any = 'a' AND city = 'b'") == ([], "any", ["city"])
    assert found("shop = 'a' AND kind IN ('1', '2', '3', '4', '5')") == ([], "shop", ["kind"])  # both leave many rows
    assert found("city = 'a' OR kind = 'b'") == ([], "city", ["kind"])
    assert found("city = 'a' AND kind = 'b'", "kind = 'c'") == ([["city", "kind"]], "kind", [])
    assert found("shop = 'x'", "city = 'a' AND kind = 'b'", "kind = 'c'") == ([["city", "kind"]], "shop", ["kind"])


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "the input has no schema"),
        ({"schema": SCHEMA}, "'queriesWithWeights' must be an object of queries and their weights"),
        ({"schema": SCHEMA, "queriesWithWeights": {"SELECT 1 FROM t": "x"}}, "'queriesWithWeights' must be"),
        (
            {
                "schema": {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT", "cardinality": "x"}]},
                "queriesWithWeights": {"SELECT 1 FROM t": 1},
            },
            "the cardinality of 'a' must be a whole number from 1",
        ),
    ],
)
def test_input_that_makes_no_sense_is_refused(document: Any, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        recommend(document)
