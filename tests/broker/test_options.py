import pytest

from gamay.base.errors import QueryError
from gamay.broker.answer.options import request_options, timeout_ms
from gamay.sql.options.option_values import check_options, flag
from gamay.sql.options.options import parse_query_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        (";timeoutMs=5", {"timeoutMs": "5"}),
        (" a = 1 ; ; b=2;", {"a": "1", "b": "2"}),
        ("timeoutMs=5;timeoutMs=5", {"timeoutMs": "5"}),
        ("a=b=c", {"a": "b=c"}),
        ("skipIndexes=", {"skipIndexes": ""}),
    ],
)
def test_option_texts(text: str, options: dict[str, str]) -> None:
    assert parse_query_options(text) == options


@pytest.mark.parametrize("text", ["nonsense", "=1", "a=1;a=2"])
def test_bad_option_texts(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_query_options(text)
    assert caught.value.code.code == 150


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("useBrokerPruning", "true", "1"),
        ("runInBroker", "FALSE", "no"),
        ("AndScanReordering", "true", "maybe"),
        ("liteModeLeafStageFanOutAdjustedLimit", "-1", "x"),
        ("maxStreamingPendingBlocks", "100", "0"),
        ("vectorUseRelativeDistance", "true", "0.5"),
    ],
)
def test_options_of_pinot_are_known_and_checked(name: str, good: str, bad: str) -> None:
    assert request_options({"queryOptions": f"{name.lower()}={good}"}) == {name: good}
    check_options({name: good})
    with pytest.raises(QueryError, match=f"The query option {name} must be"):
        check_options({name: bad})


def test_request_options() -> None:
    assert request_options({"sql": "x", "trace": True, "queryOptions": "a=1"}) == {"a": "1", "trace": "true"}
    assert request_options({"trace": "true", "queryOptions": "trace=false"}) == {"trace": "false"}
    assert request_options({"trace": False, "queryOptions": None}) == {}
    with pytest.raises(QueryError):
        request_options({"queryOptions": {"a": 1}})


def test_timeouts() -> None:
    assert timeout_ms({}, None) == 10_000
    assert timeout_ms({}, 77) == 77
    assert timeout_ms({"timeoutMs": "5"}, 77) == 5
    for bad in ("0", "-1", "soon", ""):
        with pytest.raises(QueryError):
            timeout_ms({"timeoutMs": bad}, None)


def test_switches() -> None:
    assert flag({"x": " TRUE "}, "x")
    assert not flag({"x": "1"}, "x")
    assert not flag({}, "x")
