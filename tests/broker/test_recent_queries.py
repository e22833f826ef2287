"""The latest queries of a broker: which are kept, and who may see them."""

from gamay.broker.answer.recent_queries import CONSOLE, KEPT_MAX, TEXT_MAX, RecentQueries
from gamay.cluster.access.principals import Principal
from gamay.query.answer.response import BrokerResponse
from gamay.query.stats import QueryStats

ANN = Principal("ann", "")
BOB = Principal("bob", "", tables=frozenset({"t"}))


def response(number: int) -> BrokerResponse:
    stats = QueryStats(num_docs_scanned=4, total_docs=9, offline_thread_cpu_time_ns=1_500_000)
    return BrokerResponse(stats=stats, time_used_ms=7, request_id=str(number), exceptions=[(200, "no")] if number else [])


def test_it_tells_what_a_query_cost_the_latest_first() -> None:
    recent = RecentQueries()
    recent.note("SELECT 1", ["t_OFFLINE", "t_REALTIME"], ANN, response(0), 10)
    recent.note("x" * (TEXT_MAX + 1), ["u"], ANN, response(1), 20)
    last, first = recent.told(ANN)
    assert (first["tables"], first["timeUsedMs"], first["cpuMs"], first["endedMs"]) == (["t"], 7, 1.5, 10)
    assert (last["exceptions"], len(last["sql"]), last["sql"][-1]) == ([200], TEXT_MAX + 1, "…")
    assert recent.told(ANN, "t_OFFLINE") == [first]


def test_it_tells_of_others_to_those_who_see_all_tables() -> None:
    recent = RecentQueries()
    recent.note("a", ["t"], ANN, response(0), 1)
    recent.note("b", ["t"], BOB, response(0), 2)
    assert [query["sql"] for query in recent.told(BOB)] == ["b"]
    assert [query["user"] for query in recent.told(ANN)] == ["bob", "ann"]


def test_it_keeps_so_many() -> None:
    recent = RecentQueries()
    for number in range(KEPT_MAX + 5):
        recent.note("q", ["t"], ANN, response(number), number)
    assert [query["endedMs"] for query in recent.told()] == list(range(KEPT_MAX + 4, 4, -1))


def test_those_of_the_console_push_out_no_others() -> None:
    recent = RecentQueries()
    recent.note("first", ["t"], ANN, response(0), 0)
    for number in range(1, KEPT_MAX + 5):
        recent.note("q", ["t"], ANN, response(number), number, CONSOLE)
    recent.note("last", ["t"], ANN, response(0), KEPT_MAX + 5, "board")
    told = recent.told()
    assert [query["endedMs"] for query in told] == [*range(KEPT_MAX + 5, 4, -1), 0]
    assert [(query["sql"], query["application"]) for query in (told[0], told[1], told[-1])] == [
        ("last", "board"),
        ("q", CONSOLE),
        ("first", ""),
    ]
