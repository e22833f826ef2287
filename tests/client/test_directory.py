"""Discovery of brokers by lists, controller, ZooKeeper or properties, and the choice of the next broker."""

import gzip
import json
import sys

import httpx
import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import InvalidConfigError
from gamay.client import Connection, InterfaceError, OperationalError
from gamay.client.connection import Settings
from gamay.client.controller import ControllerClient
from gamay.client.directory import ControllerDirectory, FixedBrokers, Listing, ZooKeeperDirectory
from gamay.client.http import NotAnAnswerError, ServiceError
from gamay.client.selector import BrokerSelector, tables_of


class FakeZooKeeper:
    """As much of a kazoo client as is used; `nodes` may be changed."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.stopped = False

    def exists(self, path):
        return path in self.nodes or None

    def get(self, path):
        return self.nodes[path], object()

    def stop(self):
        self.stopped = True


def view(**states):
    return json.dumps({"id": "brokerResource", "simpleFields": {}, "mapFields": states, "listFields": {}}).encode()


BOTH = view(
    t_OFFLINE={"Broker_b-1.example.org_8099": "ONLINE", "Broker_b2_8099": "OFFLINE"},
    u_OFFLINE={"Broker_b2_8099": "ONLINE"},
    v_OFFLINE={"Broker_b-1.example.org_8099": "ONLINE", "Broker_b2_8099": "ONLINE"},
    v_REALTIME={"Broker_b2_8099": "ONLINE"},
)
NODE = "/pinot/Main/EXTERNALVIEW/brokerResource"


class Directory:
    """A directory that a test changes and counts the looks into."""

    changes = True

    def __init__(self, *urls, **by_table):
        self.listing = Listing(urls, by_table)
        self.looks = 0
        self.error = None

    def list_brokers(self):
        self.looks += 1
        if self.error:
            raise self.error
        return self.listing

    def close(self):
        pass


# -- ZooKeeper


@pytest.mark.parametrize("content", [BOTH, gzip.compress(BOTH, mtime=0)])
def test_the_external_view_of_brokers(content):
    found = ZooKeeperDirectory("zk:2181/pinot/Main", FakeZooKeeper({NODE: content})).list_brokers()
    first, second = "http://b-1.example.org:8099", "http://b2:8099"
    assert found.all == (first, second)
    assert found.by_table["t"] == found.by_table["t_offline"] == (first,)
    assert found.by_table["v_offline"] == (first, second)
    assert found.by_table["v"] == (second,)  # the only one that has both halves


@pytest.mark.parametrize("path", ["zk:2181", "zk:2181/", "a:1,b:2"])
def test_a_cluster_of_the_usual_name_need_not_be_named(path):
    client = FakeZooKeeper({"/PinotCluster/EXTERNALVIEW/brokerResource": BOTH})
    assert ZooKeeperDirectory(path, client, "https").list_brokers().all[1] == "https://b2:8099"
    nested = FakeZooKeeper({"/chroot/PinotCluster/EXTERNALVIEW/brokerResource": BOTH})
    assert ZooKeeperDirectory("zk:2181/chroot", nested).list_brokers().all


def test_queries_go_to_the_brokers_that_zookeeper_holds(cluster, broker_url):
    port = broker_url.rpartition(":")[2]
    client = FakeZooKeeper({NODE: view(every_OFFLINE={f"Broker_localhost_{port}": "ONLINE"})})
    with Connection.from_zookeeper("zk:2181/pinot/Main", client=client) as connection:
        assert connection.execute("SELECT COUNT(*) FROM every")[0].get_int(0) == 2
    assert not client.stopped  # it is the caller's


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"{", b"\x1f\x8bnothing", view(t_OFFLINE={"b": "ONLINE"}), view(t_OFFLINE=["b"]), b'{"mapFields":[1]}'],
)
def test_nodes_that_hold_something_else(content):
    with pytest.raises(NotAnAnswerError, match=NODE):
        ZooKeeperDirectory("zk:2181/pinot/Main", FakeZooKeeper({NODE: content})).list_brokers()


def test_a_cluster_that_is_not_there():
    with (
        Connection.from_zookeeper("zk:2181/pinot/Man", client=FakeZooKeeper({NODE: BOTH})) as connection,
        pytest.raises(OperationalError, match=r"no node /pinot/Man/EXTERNALVIEW/brokerResource or .*must name the cluster"),
    ):
        connection.execute("SELECT 1")


def test_zookeeper_that_does_not_answer():
    with pytest.raises(ServiceError, match="ZooKeeper at zk:2181 did not answer: AttributeError"):
        ZooKeeperDirectory("zk:2181/x", object()).list_brokers()


def test_zookeeper_without_kazoo(monkeypatch):
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(InterfaceError, match=r"pip install 'gamay\[zookeeper\]'"):
        Connection.from_zookeeper("zk:2181/PinotCluster")
    with pytest.raises(InterfaceError, match="no path in ZooKeeper"):
        Connection.from_zookeeper("/PinotCluster")


# -- the controller


def controller(answer):
    return ControllerDirectory(ControllerClient("c:9000", transport=httpx.MockTransport(answer)))


def test_the_controller_of_a_real_cluster(cluster, broker_url):
    with Connection.from_controller(cluster.controller_url) as connection:
        answer = connection.execute("SELECT COUNT(*) FROM every")
        assert answer[0].get_int(0) == 2
        assert answer.broker == broker_url
        assert connection.execute("SELECT 5")[0].get_int(0) == 5


def test_what_is_no_controller(broker_url, dead_url):
    with (
        Connection.from_controller(broker_url) as connection,
        pytest.raises(InterfaceError, match="is this a controller's address"),
    ):
        connection.execute("SELECT 1")
    with (
        Connection.from_controller(dead_url) as connection,
        pytest.raises(OperationalError, match=r"brokers cannot be looked up.*refused"),
    ):
        connection.execute("SELECT 1")
    for body in ({"a": 1}, [1], {"tenants": {"T": [{"host": "h"}]}, "tables": {}}, {"tenants": {"T": ["h"]}, "tables": {}}):
        with pytest.raises(NotAnAnswerError, match="is it a controller"):
            controller(lambda request, body=body: httpx.Response(200, json=body)).list_brokers()


def test_brokers_speak_as_the_controller_does():
    one = {"host": "b", "port": 1}
    answer = {"tenants": {"T": [one, one]}, "tables": {"t_OFFLINE": [one]}}
    seen = []

    def take(request):
        seen.append(str(request.url))
        return httpx.Response(200, json=answer if request.url.host == "c" else {"exceptions": []})

    with Connection.from_controller("https://c:9000", transport=httpx.MockTransport(take)) as connection:
        connection.execute("SELECT 1 FROM t")
    assert seen == ["https://c:9000/v2/brokers?state=ONLINE", "https://b:1/query/sql"]


def test_credentials_in_the_url_of_a_controller_are_for_the_brokers_too():
    seen = []

    def take(request):
        seen.append((request.url.host, request.headers.get("authorization")))
        answer = {"tenants": {"T": [{"host": "b", "port": 1}]}, "tables": {}}
        return httpx.Response(200, json=answer if request.url.host == "c" else {"exceptions": []})

    for url, settings in (("http://ann:x@c:9000", {}), ("http://ann:x@c:9000", {"auth_token": "Bearer t"})):
        with Connection.from_controller(url, transport=httpx.MockTransport(take), **settings) as connection:
            connection.execute("SELECT 1")
    assert seen == [("c", "Basic YW5uOng="), ("b", "Basic YW5uOng="), ("c", "Bearer t"), ("b", "Bearer t")]


def test_a_broker_that_moves_is_found_again(stubs, answer):
    old, new = stubs(), stubs()
    old.answer = lambda path, body: (503, b"gone")
    where = [old.url]

    def take(request):
        port = int(where[0].rpartition(":")[2])
        one = {"host": "127.0.0.1", "port": port}
        return httpx.Response(200, json={"tenants": {"T": [one]}, "tables": {}})

    clock = ManualClock()
    directory = ControllerDirectory(ControllerClient("c:9000", transport=httpx.MockTransport(take)))
    with Connection(directory) as connection:
        connection._selector._clock = clock
        with pytest.raises(OperationalError, match="gone"):
            connection.execute("SELECT 1")
        where[0] = new.url
        clock.advance(2)
        assert connection.execute("SELECT 1")[0].get_int(0) == 1


# -- turns


def test_brokers_take_turns():
    selector = BrokerSelector(FixedBrokers(["a:1", "http://b:1", "a:1"]), ManualClock())
    urls = [selector.candidates([])[0] for _ in range(4)]
    assert urls == ["http://b:1", "http://a:1"] * 2


def test_a_broker_that_failed_comes_last_for_a_while():
    clock = ManualClock()
    selector = BrokerSelector(FixedBrokers(["a:1", "b:1"]), clock)
    selector.failed("http://a:1")
    assert {tuple(selector.candidates([])) for _ in range(4)} == {("http://b:1", "http://a:1")}
    clock.advance(11)
    assert {selector.candidates([])[0] for _ in range(4)} == {"http://a:1", "http://b:1"}
    selector.failed("http://a:1")
    selector.answered("http://a:1")
    assert {selector.candidates([])[0] for _ in range(4)} == {"http://a:1", "http://b:1"}


def test_only_brokers_of_the_tables_are_asked():
    selector = BrokerSelector(Directory("a", "b", "c", t=("a", "b"), u=("b", "c")), ManualClock())
    assert set(selector.candidates(["T"])) == {"a", "b"}
    assert selector.candidates(["t", "U"]) == ["b"]
    assert set(selector.candidates([])) == set(selector.candidates(["nowhere"])) == {"a", "b", "c"}


def test_the_list_is_looked_up_again_when_it_is_old_or_does_not_know_a_table():
    clock = ManualClock()
    directory = Directory("a", t=("a",))
    selector = BrokerSelector(directory, clock, refresh_s=30)
    for _ in range(3):
        selector.candidates(["t"])
    assert directory.looks == 1
    clock.advance(31)
    selector.candidates(["t"])
    assert directory.looks == 2
    selector.candidates(["new"])  # looked up a moment ago
    assert directory.looks == 2
    clock.advance(2)
    directory.listing = Listing(("a", "b"), {"new": ("b",)})
    assert selector.candidates(["new"]) == ["b"]
    clock.advance(31)
    directory.error = ServiceError("away", 503)
    assert selector.candidates(["new"]) == ["b"]  # the last list that there was
    assert directory.looks == 4


def test_without_any_list_the_reason_is_told():
    directory = Directory()
    directory.error = ServiceError("away", 503)
    with pytest.raises(ServiceError, match="away"):
        BrokerSelector(directory, ManualClock()).candidates([])
    with Connection(Directory()) as connection, pytest.raises(OperationalError, match="no broker answers: there is none"):
        connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("database", "table"),
    [
        ("sales", "T"),
        ("Sales", "sales.t_OFFLINE"),
        (None, "SALES.t"),
        ("default", "u"),
        (None, "default.u"),
        ("sales", "default.u"),
    ],
)
def test_brokers_of_a_table_are_found_whatever_names_its_database(stubs, database, table):
    right, wrong = stubs(), stubs()
    urls = (wrong.url, right.url)
    directory = Directory(*urls, **{"sales.t": (right.url,), "sales.t_offline": (right.url,), "u": (right.url,)})
    clock = ManualClock()
    with Connection(directory, Settings(database=database, clock=clock)) as connection:
        for _ in range(4):
            connection.execute(f"SELECT a FROM {table}")
            clock.advance(2)
        if database == "sales" and table == "T":
            connection.execute("SELECT a FROM u", options={"database": "default"})
    assert (len(right.requests) // 4, len(wrong.requests), directory.looks) == (1, 0, 1)


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT a FROM trips", {"trips"}),
        ("select a from \"My Table\" where b = 'from x'", {"my table"}),
        ("SELECT a FROM db.t_OFFLINE -- from u\n JOIN v ON 1=1", {"db.t_offline", "v"}),
        ("SELECT 1", set()),
        ("SELECT EXTRACT(YEAR FROM ts) FROM t", {"ts", "t"}),
        ("FROM", set()),
    ],
)
def test_tables_of_a_query(query, tables):
    assert tables_of(query) == tables


# -- properties


def test_properties(stubs, tmp_path):
    broker = stubs()
    file = tmp_path / "demo.properties"
    file.write_text(
        f"# brokers\nbrokerList={broker.url}, {broker.url}\nbrokerReadTimeoutMs=5000\nqueryOptions=trace=true\n"
        "headers.X-Team=a b\nuser=ann\npassword=x\nfailOnExceptions=false\nscheme=http\nbrokerConnectTimeoutMs=100\n"
    )
    broker.answer = lambda path, body: (
        200,
        b'{"exceptions": [{"errorCode": 427}], "aggregationResults": [{"function":"f"}]}',
    )
    with Connection.from_properties(file) as connection:
        assert connection.execute("SELECT 1").partial
    _, headers, body = broker.requests[0]
    assert body["queryOptions"] == "trace=true;timeoutMs=5000"
    assert headers["x-team"] == "a b"
    assert headers["authorization"].startswith("Basic ")


def test_properties_that_name_a_controller(cluster):
    with Connection.from_properties({"controllerUrl": cluster.controller_url}) as connection:
        assert connection.execute("SELECT 5")[0].get_int(0) == 5
    client = FakeZooKeeper({})
    Connection.from_properties({"zookeeperUrl": "zk/x", "scheme": "https"}, client=client).close()


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "must have one of brokerList, controllerUrl, zookeeperUrl; they have none"),
        ({"brokerList": "a", "controllerUrl": "b"}, "they have brokerList, controllerUrl"),
        ({"brokerlist": "a"}, "brokerlist is not known. Did you mean 'brokerList'"),
        ({"brokerList": "a", "brokerReadTimeoutMs": "soon"}, "must be a number of milliseconds"),
        ({"brokerList": "a", "failOnExceptions": "maybe"}, "must be true or false"),
        ("/nowhere/x.properties", "cannot be read"),
    ],
)
def test_wrong_properties(properties, message):
    with pytest.raises(InterfaceError, match=message):
        Connection.from_properties(properties)


def test_wrong_lists():
    with pytest.raises(InvalidConfigError, match="empty"):
        FixedBrokers([])
