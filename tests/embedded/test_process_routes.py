"""The routes about the process itself, which every role has."""

import logging
from datetime import datetime
from typing import Any

import pytest

from gamay.base.process_info import VERSION
from gamay.controller.api.not_offered import REFUSED
from gamay.web.parameters import PARAMETERS


@pytest.mark.parametrize("role", ["controller", "broker", "server"])
def test_each_role_tells_since_when_it_runs_and_on_what(api: Any, role: str) -> None:
    rest = getattr(api, role)
    assert int(rest.get("/uptime").text) >= 0
    assert datetime.fromisoformat(rest.get("/start-time").text.replace("Z", "+00:00")).year >= 2024
    shown = rest.get("/appconfigs").json()
    assert set(shown) == {"systemConfig", "runtimeConfig", "pinotConfig"}
    assert shown["runtimeConfig"]["library"].startswith("Python 3")


@pytest.mark.parametrize("role", ["broker", "server", "minion"])
def test_threads_are_told_with_their_processor_time(api: Any, role: str) -> None:
    threads = getattr(api, role).get("/debug/threads/resourceUsage").json()
    assert "MainThread" in {thread["threadName"] for thread in threads}
    assert any(thread["cpuTimeNs"] for thread in threads)


@pytest.mark.parametrize("role", ["controller", "broker", "server", "minion"])
def test_head_works_where_get_does(api: Any, role: str) -> None:
    rest = getattr(api, role)
    for path in ("/health", "/version", "/swagger.json", "/metrics", "/nothing"):
        got, head = rest.get(path), rest.head(path)
        assert head.status_code == got.status_code
        assert head.headers["content-type"] == got.headers["content-type"]
        assert (head.content, bool(got.content)) == (b"", True)
    assert rest.get("/version").json()["gamay"] == VERSION


@pytest.mark.parametrize("role", ["controller", "broker", "server"])
def test_levels_of_loggers_can_be_seen_and_changed(api: Any, role: str) -> None:
    rest, name = getattr(api, role), f"gamay.test.{role}"
    logging.getLogger(name)
    assert name in rest.get("/loggers").json()
    assert rest.put(f"/loggers/{name}", params={"level": "debug"}).json()["level"] == "DEBUG"
    assert logging.getLogger(name).level == logging.DEBUG
    assert rest.get(f"/loggers/{name}").json() == {"name": name, "level": "DEBUG", "filter": None}
    assert rest.put(f"/loggers/{name}", params={"level": "LOUD"}).status_code == 400
    assert rest.get("/loggers/gamay.nothing").status_code == 404
    assert rest.get("/loggers/files").status_code == 404


def test_tags_and_quotas(api: Any) -> None:
    assert api.broker.get("/instance/tags").json() == ["DefaultTenant_BROKER"]
    assert api.server.get("/instance/tags").json() == ["DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"]
    assert api.broker.get("/debug/databases/queryQuota/default").text == "0.0"
    assert api.broker.get("/debug/applicationQuotas/shop").text == "0.0"


def test_each_role_describes_its_routes(api: Any) -> None:
    for role in ("controller", "broker", "server", "minion"):
        _check_help(getattr(api, role), role)


def _check_help(rest: Any, role: str) -> None:
    page = rest.get("/help")
    assert page.status_code == 200
    assert "https://" not in page.text
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert f"/static-offline-docs/{name}" in page.text
        assert len(rest.get(f"/static-offline-docs/{name}").content) > 10_000
    assert rest.get("/static-offline-docs/..%2fcore.py").status_code == 404
    assert rest.get("/api").status_code in (200, 307)
    document = rest.get("/swagger.json").json()
    assert document["openapi"].startswith("3.")
    assert "/metrics" in document["paths"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation.get("summary", "").strip(), path
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert all(f"{{{name}}}" in path for name in named)
            assert path.count("{") == len(named) or role == "controller"
            assert operation["description"].strip(), path
            assert all(one["description"] for one in operation.get("parameters", ())), path
            assert "default" in operation["responses"], path
            kinds = [kind for told in operation["responses"].values() for kind in told["content"].values()]
            assert kinds
            assert all(kind["schema"] for kind in kinds), path
    _check_answers(rest, document)


def _check_answers(rest: Any, document: Any) -> None:
    """Check that every GET route without parameters answers as documented."""
    kinds = {"object": dict, "array": list, "string": str}
    for path, operations in document["paths"].items():
        get = operations.get("get")
        if get is None or "{" in path or any(one.get("required") for one in get.get("parameters", ())):
            continue
        told = get["responses"].get("200")
        answer = rest.get(path)
        if told is None:
            assert answer.status_code >= 400, path
        elif answer.status_code == 200:
            content_type = answer.headers["content-type"].partition(";")[0]
            assert content_type in told["content"], path
            kind = told["content"][content_type]["schema"].get("type")
            if content_type == "application/json" and kind in kinds:
                assert isinstance(answer.json(), kinds[kind]), path


def test_documents_begin_with_what_people_look_for_and_end_with_what_there_is_not(api: Any) -> None:
    paths = {
        role: list(getattr(api, role).get("/swagger.json").json()["paths"]) for role in ("controller", "broker", "server")
    }
    assert [paths["controller"][0], paths["broker"][0]] == ["/jsonSchemas", "/query/sql"]
    assert paths["controller"][-1] in {path for _, path, _ in REFUSED}
    assert paths["broker"][-1] == "/loggers/{name}"


def test_each_meaning_of_a_parameter_is_of_one(api: Any) -> None:
    taken = {
        parameter["name"]
        for role in ("controller", "broker", "server", "minion")
        for operations in getattr(api, role).get("/swagger.json").json()["paths"].values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
    }
    assert sorted(PARAMETERS.keys() - taken) == []


def test_what_brokers_and_servers_take_is_shown(api: Any) -> None:
    paths = api.broker.get("/swagger.json").json()["paths"]
    assert {one["name"] for one in paths["/query/sql"]["get"]["parameters"]} >= {"sql"}
    assert "requestBody" in paths["/query/sql"]["post"]
    assert paths["/query/{query_id}"]["delete"]["summary"].startswith("Cancel")
    paths = api.server.get("/swagger.json").json()["paths"]
    assert "/tables/{table}/segments/{segment}/metadata" in paths
