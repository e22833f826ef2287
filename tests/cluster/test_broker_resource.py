"""`brokerResource`: the brokers of each table, by tenants and tags."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.clock import ManualClock
from gamay.cluster.records.broker_resource import BrokerResource, assigned_brokers, broker_states
from gamay.cluster.records.records import Instance
from gamay.cluster.records.registry import Registry, announce
from gamay.cluster.store import paths
from gamay.cluster.store.embedded_store import EmbeddedStore

A, B, C = "Broker_a_1", "Broker_b_1", "Broker_c_1"
INSTANCES = [
    Instance(A, "a", 1, ("x_BROKER",)),
    Instance(B, "b", 1, ("x_BROKER", "y_BROKER"), enabled=False),
    Instance(C, "c", 1, ("x_BROKER",)),
    Instance("Server_a_1", "a", 1, ("x_BROKER",)),
]


def test_tables_are_assigned_the_brokers_of_their_tenant() -> None:
    assert assigned_brokers({"t_OFFLINE": "x", "u_OFFLINE": "y", "v_OFFLINE": "z"}, INSTANCES) == {
        "t_OFFLINE": {A: "ONLINE", B: "ONLINE", C: "ONLINE"},
        "u_OFFLINE": {B: "ONLINE"},
    }


def test_brokers_that_are_away_or_disabled_do_not_answer() -> None:
    ideal = assigned_brokers({"t_OFFLINE": "x", "u_OFFLINE": "y"}, INSTANCES)
    assert broker_states(ideal, INSTANCES, {A, B, "Server_a_1"}) == {
        "t_OFFLINE": {A: "ONLINE", B: "OFFLINE"},
        "u_OFFLINE": {B: "OFFLINE"},
    }


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    store = EmbeddedStore.open(tmp_path / "metadata.db", ManualClock(1))
    registry = Registry(store)
    for table, tenants in (("t_OFFLINE", {"broker": "x"}), ("u_OFFLINE", {"broker": "y"}), ("v_OFFLINE", {})):
        registry.create_table_config(table, {"tableName": table, "tableType": "OFFLINE", "tenants": tenants})
    registry.put_instance(Instance(A, "a", 1, ("x_BROKER",)))
    yield registry
    store.close()


def test_the_first_write_names_every_table(registry: Registry) -> None:
    resource = BrokerResource(registry)
    assert resource.ideal() is None
    assert resource.rebuild(["u_OFFLINE"]) == ["t_OFFLINE"]
    assert resource.ideal() == {"t_OFFLINE": {A: "ONLINE"}}
    record = registry.get_ideal_state(paths.BROKER_RESOURCE)
    assert record is not None
    assert record.simple["STATE_MODEL_DEF_REF"] == "BrokerResourceOnlineOfflineStateModel"


def test_a_broker_that_joins_is_enrolled_once_there_is_a_record(registry: Registry) -> None:
    resource, joining = BrokerResource(registry), Instance(B, "b", 1, ("y_BROKER", "DefaultTenant_BROKER"))
    resource.enrol(joining)
    assert resource.ideal() is None  # a record of this broker alone would have the others refuse their tables
    resource.rebuild()
    resource.enrol(joining)
    assert resource.ideal() == {"t_OFFLINE": {A: "ONLINE"}, "u_OFFLINE": {B: "ONLINE"}, "v_OFFLINE": {B: "ONLINE"}}
    registry.put_instance(joining)
    assert resource.rebuild() == []


def test_the_external_view_follows_who_is_alive(registry: Registry) -> None:
    resource = BrokerResource(registry)
    resource.rebuild()
    resource.publish()

    def view() -> Any:
        found = registry.get_external_view(paths.BROKER_RESOURCE)
        assert found is not None
        return found.states["t_OFFLINE"]

    assert view() == {}
    announce(registry.store, A)
    resource.publish()
    assert view() == {A: "ONLINE"}


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("tag"), st.sampled_from((A, B, C)), st.sets(st.sampled_from("xyz"))),
        st.tuples(st.just("drop"), st.sampled_from((A, B, C)), st.just(set[str]())),
        st.tuples(st.just("table"), st.sampled_from("tuv"), st.sets(st.sampled_from("xyz"), min_size=1, max_size=1)),
        st.tuples(st.just("delete"), st.sampled_from("tuv"), st.just(set[str]())),
    )
)


@given(CHANGES)
def test_single_steps_lead_where_a_whole_rebuild_leads(changes: list[tuple[str, str, set[str]]]) -> None:
    folder = tempfile.TemporaryDirectory()
    store = EmbeddedStore.open(Path(folder.name) / "metadata.db", ManualClock(1))
    registry = Registry(store)
    resource = BrokerResource(registry)
    resource.rebuild()
    for kind, name, tenants in changes:
        table = f"{name}_OFFLINE"
        if kind == "tag":
            registry.put_instance(Instance(name, "h", 1, tuple(f"{t}_BROKER" for t in sorted(tenants))))
            resource.enrol(Instance(name, "h", 1, tuple(f"{t}_BROKER" for t in sorted(tenants))))
        elif kind == "drop":
            registry.delete_instance(name)
            resource.enrol(Instance(name, "h", 1))
        elif kind == "table":
            document = {"tableName": table, "tableType": "OFFLINE", "tenants": {"broker": min(tenants)}}
            registry.put_table_config(table, document)
            resource.rebuild([table])
        else:
            registry.delete_table_config(table)
            resource.forget(table)
        assert resource.rebuild() == []
    store.close()
    folder.cleanup()
