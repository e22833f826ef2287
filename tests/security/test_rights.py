"""Every route of every role, against the table `expected_rights.txt`: for each kind of principal and each trick."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from tests.waiting import PATIENCE_S

import gamay
from gamay.broker.http.rights import BROKER_RIGHTS
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.access.rights import Rights, UndeclaredRouteError, read_rights
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.rights import CONTROLLER_RIGHTS
from gamay.embedded import EmbeddedCluster
from gamay.minion.rights import MINION_RIGHTS
from gamay.roles.settings import read_access
from gamay.server.http.rights import SERVER_RIGHTS

RIGHTS: dict[str, Rights] = {
    "controller": CONTROLLER_RIGHTS, "broker": BROKER_RIGHTS, "server": SERVER_RIGHTS, "minion": MINION_RIGHTS
}  # fmt: skip
OWN, OTHER = "trips", "salaries"
# name -> keys of the file
PRINCIPALS = {
    "root": {},
    "auditor": {"permissions": "READ"},
    "chief": {"role": "operator"},
    "node": {"role": "instance"},
    "clerk": {"tables": OWN},
    "driver": {"tables": OWN, "role": "writer"},
    "rider": {"tables": OWN, "role": "reader"},
    "guest": {"tables": OWN, "permissions": "READ"},
    "temp": {"excludeTables": OTHER},
}
# the levels that each has, and whether it may use all tables; written down, not computed
LEVELS = {
    "root": ("read write operate administer instance", True),
    "auditor": ("read", True),
    "chief": ("read write operate", True),
    "node": ("read write instance", True),
    "clerk": ("read write operate", False),
    "driver": ("read write", False),
    "rider": ("read", False),
    "guest": ("read", False),
    "temp": ("read write operate", False),
}
BOUND = [name for name, (_, sees_all) in LEVELS.items() if not sees_all]
PREFIXES = {
    "controller.admin.access.control": "factory.class",
    "pinot.broker.access.control": "class",
    "pinot.server.admin.access.control": "factory.class",
    "pinot.minion.admin.access.control": "factory.class",
}
LIST_BODIES = ("/segments/{table}/delete", "/query/tableNames", "/instances/updateTags/validate")


@dataclass(frozen=True)
class Line:
    """One line of the table. places: where tables are named: {in the path}, ?parameter or body.key"""

    level: str
    scope: str
    role: str
    method: str
    path: str
    places: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.role} {self.method} {self.path}"


def read_lines() -> Iterator[Line]:
    level = scope = ""
    for text in (Path(__file__).parent / "expected_rights.txt").read_text(encoding="utf-8").splitlines():
        if text.startswith("["):
            level, scope = text[1 : text.index("]")].split()
        elif text and not text.startswith("#"):
            route, _, places = text.partition("<-")
            named = tuple(place.strip() for place in places.split(",")) if places else ("{table}",)
            yield Line(level, scope, *route.split(), named if scope == "named" else ())


LINES = list(read_lines())


def tokens() -> dict[str, dict[str, str]]:
    return {name: {"Authorization": basic_token(name, f"{name}-pw")} for name in PRINCIPALS}


HEADERS = tokens()


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder: Path = tmp_path_factory.mktemp("rights")
    with gamay.connect(folder / "data") as db:
        db.create_table(OWN, pa.table({"n": [1, 2, 3]}))
        db.create_table(OTHER, pa.table({"n": [4, 5]}))
    keys = []
    for prefix, switch in PREFIXES.items():
        keys += [f"{prefix}.{switch}=BasicAuthAccessControlFactory", f"{prefix}.principals={','.join(PRINCIPALS)}"]
        for name, given in PRINCIPALS.items():
            keys += [
                f"{prefix}.principals.{name}.{key}={value}" for key, value in {"password": f"{name}-pw", **given}.items()
            ]
    (folder / "access.properties").write_text("\n".join(keys))
    access = read_access(folder / "access.properties")
    with EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, access=access) as cluster:
        yield {
            "controller": cluster.controller_url, "broker": cluster.broker_url,
            "server": cluster.server_url, "minion": cluster.minion_url,
        }  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=PATIENCE_S) as found:
        yield found


@pytest.fixture(scope="module")
def documents(urls: dict[str, str], client: httpx.Client) -> dict[str, Any]:
    return {role: client.get(f"{url}/swagger.json").json()["paths"] for role, url in urls.items()}


def test_the_table_is_what_routes_are_registered_by() -> None:
    declared = {
        f"{role} {method} {path}": (right.level.value, right.scope.value)
        for role, rights in RIGHTS.items()
        for (method, path), right in rights.items()
    }
    assert declared == {str(line): (line.level, line.scope) for line in LINES}


def test_every_documented_route_is_in_the_table(documents: dict[str, Any]) -> None:
    shown = {
        f"{role} {m.upper()} {path}" for role, paths in documents.items() for path, methods in paths.items() for m in methods
    }
    assert len(shown) > 330
    assert not shown - {str(line) for line in LINES}


def test_a_route_without_a_right_cannot_be_registered() -> None:
    router = GuardedRouter()
    with pytest.raises(UndeclaredRouteError, match=r"GET /tables/\{table\}/secrets has no line"):
        router.get("/tables/{table}/secrets")(lambda table: table)
    with pytest.raises(UndeclaredRouteError, match=r"POST /schemas/\{name\}"):
        router.post("/schemas/{name}")(lambda name: name)
    with pytest.raises(TypeError, match="no argument 'name'"):
        router.get("/schemas/{name}")(lambda schema: schema)
    with pytest.raises(ValueError, match="has two rights"):
        read_rights("GET /a A read -\nGET /a A open -")
    with pytest.raises(ValueError, match="METHOD PATH ACTION LEVEL TABLES"):
        read_rights("GET /a A red -")


def test_what_changes_state_is_no_read() -> None:
    """A GET needs only READ if its level is reading; the names of reading POSTs are few and listed."""
    reads = {"Query", "ValidateSchema", "ValidateTableConfigs", "NotOffered", "EstimateUpsertMemory", "GetInstance"}
    reads |= {"GetSegmentReloadStatus", "GetMetadata", "DownloadSegment"}
    asked = {
        r.action for rights in RIGHTS.values() for (m, _), r in rights.items() if m != "GET" and r.level.value == "read"
    }
    assert asked == reads


def parameters_of(line: Line, documents: dict[str, Any], table: str) -> list[tuple[str, str]]:
    """Return the parameters that a route must have, with values of their kind; those of tables name `table`."""
    shown = documents[line.role].get(line.path, {}).get(line.method.lower(), {})
    found: list[tuple[str, str]] = []
    for given in shown.get("parameters", []):
        if given["in"] == "query" and given.get("required"):
            kind = given["schema"].get("type")
            text = "1" if kind in ("integer", "number") else "true" if kind == "boolean" else "OFFLINE"
            found.append((given["name"], "/" if given["name"] == "path" else text))
    named = {place[1:] for place in line.places if place.startswith("?")}
    return [(name, value) for name, value in found if name not in named] + [(name, table) for name in sorted(named)]


def body_of(table: str) -> dict[str, Any]:
    """Return a body that names a table at every place where a route looks for it, and is invalid otherwise."""
    named = {"tableName": table, "schemaName": table}
    parts = dict.fromkeys(("schema", "offline", "realtime", "tableConfig"), named)
    return {**named, **parts, "taskType": "NoTask", "sql": f"SELECT n FROM {table}", "segments": [], "sinceMs": 0}


def ask(
    client: httpx.Client, urls: dict[str, str], line: Line, name: str | None, parameters: list[tuple[str, str]],
    body: dict[str, Any], table: str, headers: dict[str, str] | None = None,
) -> httpx.Response:  # fmt: skip
    path = line.path.replace("{table}", table).replace("{name}", table)
    for part in ("segment", "job_id", "task_type", "broker", "query_id", "request_id"):
        path = path.replace(f"{{{part}}}", "1")
    return client.request(
        line.method,
        f"{urls[line.role]}{path}",
        params=parameters,
        content=None if line.method in ("GET", "DELETE") else orjson.dumps([] if line.path in LIST_BODIES else body),
        headers={**(HEADERS[name] if name else {}), **(headers or {})},
    )


def is_refused(line: Line, name: str, table: str) -> bool:
    """Whether a principal is not to get through, by LEVELS and the table of rights alone."""
    levels, sees_all = LEVELS[name]
    if line.level == "open":
        return False
    if line.level not in levels.split():
        return True
    if sees_all or line.level in ("administer", "instance"):
        return False
    if line.scope == "named":
        return table == OTHER
    return line.scope == "all" or (line.scope == "-" and line.level != "read")


@pytest.mark.parametrize("name", PRINCIPALS)
@pytest.mark.parametrize("table", [OWN, OTHER])
def test_who_may_not_is_refused_and_who_may_is_not(
    urls: dict[str, str], client: httpx.Client, documents: dict[str, Any], name: str, table: str
) -> None:
    for line in LINES:
        refused = is_refused(line, name, table)
        if not refused and (line.level not in ("read", "open") or line.scope == "found"):
            continue  # it would happen
        answer = ask(client, urls, line, name, parameters_of(line, documents, table), body_of(table), table)
        if refused:
            assert answer.status_code == 403, (str(line), name, table, answer.status_code, answer.text[:200])
            assert answer.json()["error"].startswith("Permission denied.Reason:")
        else:
            assert answer.status_code not in (401, 403), (str(line), name, table, answer.text[:200])


def test_nobody_gets_anything_but_what_is_open(
    urls: dict[str, str], client: httpx.Client, documents: dict[str, Any]
) -> None:
    for line in LINES:
        answer = ask(client, urls, line, None, parameters_of(line, documents, OWN), body_of(OWN), OWN)
        assert (answer.status_code == 401) == (line.level != "open"), (str(line), answer.text[:200])
        wrong = {"Authorization": basic_token("root", "wrong")}
        if line.level == "open" and "auth" not in line.path:
            answer = ask(client, urls, line, None, parameters_of(line, documents, OWN), body_of(OWN), OWN, wrong)
            assert answer.status_code != 401, str(line)


def test_answers_do_not_tell_of_tables_that_are_kept_away(
    urls: dict[str, str], client: httpx.Client, documents: dict[str, Any]
) -> None:
    for line in LINES:
        if line.method != "GET" or line.level not in ("read", "open") or line.path in ("/swagger.json", "/help"):
            continue
        for name in BOUND:
            answer = ask(client, urls, line, name, parameters_of(line, documents, OWN), {}, OWN)
            assert OTHER not in answer.text, (str(line), name)


def spellings(table: str) -> list[str]:
    return [f"{table}_OFFLINE", f"{table}_REALTIME"]


TRICKED = [line for line in LINES if line.scope == "named"]


def tricks(line: Line, documents: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]], dict[str, Any], str]]:
    """Yield requests that name their own table somewhere, and the other one where it counts."""
    own, other = (parameters_of(line, documents, table) for table in (OWN, OTHER))
    aliases = [(key, OWN) for key in ("tableName", "tableNameWithType", "table", "schemaName", "tables")]
    for spelling in spellings(OTHER):
        yield f"as {spelling}", parameters_of(line, documents, spelling), body_of(spelling), spelling
    yield "an alias beside it", [pair for pair in aliases if pair[0] not in dict(other)] + other, body_of(OTHER), OTHER
    for place in line.places:
        if place.startswith("?"):
            key = place[1:]
            rest = [pair for pair in own if pair[0] != key]
            for pair in ([OWN, OTHER], [OTHER, OWN], [OTHER, OWN, OTHER]):
                yield f"{key} {pair}", rest + [(key, value) for value in pair], body_of(OWN), OWN
            yield f"{key} empty", [*rest, (key, "")], body_of(OWN), OWN
        elif place.startswith("body."):
            keys = place.split(".")[1:]
            body: dict[str, Any] = body_of(OWN)
            part = body
            for key in keys[:-1]:
                part[key] = dict(part[key])
                part = part[key]
            part[keys[-1]] = OTHER
            yield f"{place} alone", own, body, OWN
        else:
            yield "the body its own", own, body_of(OWN), OTHER
            yield "percent-encoded", own, body_of(OWN), "".join(f"%{ord(letter):02x}" for letter in OTHER)


@pytest.mark.parametrize("name", BOUND)
def test_no_trick_reaches_a_table_that_is_kept_away(
    urls: dict[str, str], client: httpx.Client, documents: dict[str, Any], name: str
) -> None:
    tried = 0
    for line in TRICKED:
        for trick, parameters, body, table in tricks(line, documents):
            answer = ask(client, urls, line, name, parameters, body, table)
            tried += 1
            assert answer.status_code in (400, 403), (str(line), trick, answer.status_code, answer.text[:200])
    assert tried > 400


def test_a_parameter_that_is_no_list_comes_once(
    urls: dict[str, str], client: httpx.Client, documents: dict[str, Any]
) -> None:
    for line in LINES:
        if line.level == "read" and line.path not in ("/query", "/query/sql", "/debug/routingTable/sql"):
            parameters = [*parameters_of(line, documents, OWN), ("odd", "1"), ("odd", "2")]
            answer = ask(client, urls, line, "root", parameters, body_of(OWN), OWN)
            assert answer.status_code == 400, (str(line), answer.status_code, answer.text[:200])
    answer = client.get(f"{urls['controller']}/tables/livebrokers?tables={OWN}&tables={OTHER}", headers=HEADERS["root"])
    assert sorted(answer.json()) == [f"{OTHER}_OFFLINE", f"{OWN}_OFFLINE"]
