"""The roles, options, ports, files, extras and metrics named in `deploy/` exist."""

import ast
import json
import re
import shutil
import socket
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import gamay
from gamay.cli.app import app
from gamay.cluster.records.records import Role
from gamay.roles.settings import DEFAULT_PORTS

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
MEASURING = (
    *(str(path.relative_to(ROOT / "src/gamay")) for path in sorted((ROOT / "src/gamay").rglob("metrics/*.py"))),
    *(str(path.relative_to(ROOT / "src/gamay")) for path in sorted((ROOT / "src/gamay").rglob("*metrics.py"))),
    "broker/admit/quota.py",
    "controller/counts.py",
    "controller/health/periodic.py",
    "controller/instances/stale_instances.py",
    "controller/metrics/status_gauges.py",
    "server/query_counts.py",
)
# what prometheus_client measures of a process, and what Prometheus knows of a target
GENERAL = {"process_resident_memory_bytes", "process_cpu_seconds_total", "up"}
FUNCTIONS = {"histogram_quantile", "le", "sum", "min", "max", "rate", "increase", "by", "on", "and", "or", "label_values"}


def loaded(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def strings() -> set[str]:
    """Return all texts in the code that measures."""
    found: set[str] = set()
    for name in MEASURING:
        for node in ast.walk(ast.parse((ROOT / "src/gamay" / name).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def is_measured(name: str, texts: set[str]) -> bool:
    """Whether a role exports a metric of this name."""
    if name in GENERAL or re.fullmatch(r"pinot_controller_(server|broker|controller)s(Up|Down)", name):
        return True
    role, _, short = name.removeprefix("pinot_").removesuffix("_total").removesuffix("_bucket").partition("_")
    return name.startswith("pinot_") and (short in texts or f"pinot_{role}_{short}" in texts)


def names_in(expression: str) -> Iterator[str]:
    """Yield the metrics of a PromQL expression."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]', "", expression)
    bare = re.sub(r"\b(by|on)\s*\([^)]*\)", "", bare)
    yield from (word for word in re.findall(r"[A-Za-z_]\w*", bare) if word not in FUNCTIONS)


def expressions() -> Iterator[tuple[str, str]]:
    for group in loaded("prometheus/alerts.yml")["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            assert rule["labels"]["severity"] in ("warning", "critical")
            yield rule["alert"], rule["expr"]
    board = json.loads((DEPLOY / "grafana/dashboards/gamay.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        yield variable["name"], variable["query"]["query"].replace(", table", "")


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_metric_is_measured(where: str, expression: str) -> None:
    names = list(names_in(expression))
    assert names, expression
    texts = strings()
    assert [name for name in names if not is_measured(name, texts)] == []


def test_the_guide_names_what_is_measured() -> None:
    texts = strings() | {
        node.value
        for node in ast.walk(ast.parse((ROOT / "src/gamay/server/metrics/keys.py").read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    page = (ROOT / "docs/operate/monitoring.md").read_text()
    names = re.findall(r"`(pinot_\w+)", page)
    assert len(names) > 10
    assert [name for name in names if not is_measured(name, texts)] == []


def test_what_is_not_measured_is_found() -> None:
    assert not is_measured("pinot_broker_querys_total", strings())
    assert list(names_in('sum by (table) (rate(pinot_broker_x_total{table=~"a"}[5m])) > 0')) == ["pinot_broker_x_total"]


def health_ports() -> list[str]:
    """The ports that the check of health in the image looks at."""
    (ports,) = re.findall(r"GAMAY_HEALTH_PORT:-([\d ]+)", (DEPLOY / "healthy.sh").read_text())
    return ports.split()


def roles() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, service in loaded("compose.yaml")["services"].items():
        if service.get("image") == "gamay":
            yield name, service


@pytest.mark.parametrize(("name", "service"), list(roles()))
def test_every_command_can_be_given(name: str, service: dict[str, Any]) -> None:
    start, role, *options = service["command"]
    command = get_command(app).commands[start].commands[role]  # type: ignore[attr-defined]
    known = {text: option for option in command.params for text in option.opts}
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert set(given) <= set(known)
    assert given["--host"] == name
    assert given["--zk"] == "zookeeper:2181/gamay"
    port = DEFAULT_PORTS[Role(role.capitalize())]
    assert str(port) in health_ports()
    mounted = {volume.split(":")[1] for volume in service.get("volumes", ())}
    assert {path for option, path in given.items() if option in ("--data-dir", "--deep-store")} == mounted
    assert all(published.split(":") == [str(port), str(port)] for published in service.get("ports", ()))


def test_prometheus_asks_every_role() -> None:
    targets = {
        t for job in loaded("prometheus/prometheus.yml")["scrape_configs"] for t in job["static_configs"][0]["targets"]
    }
    assert targets == {f"{name}:{DEFAULT_PORTS[Role(service['command'][1].capitalize())]}" for name, service in roles()}
    assert loaded("prometheus/prometheus.yml")["rule_files"] == ["alerts.yml"]


def test_the_files_that_are_mounted_and_copied_exist() -> None:
    compose = loaded("compose.yaml")
    volumes = [v for service in compose["services"].values() for v in service.get("volumes", ())]
    for source in (volume.split(":")[0] for volume in volumes):
        assert (DEPLOY / source).exists() if source.startswith(".") else source in compose["volumes"]
    assert (DEPLOY / "compose.yaml").parent.joinpath("..", "deploy/Dockerfile").exists()
    text = (DEPLOY / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (.*) \S+$", text, re.M) for word in line.split()}
    assert all((ROOT / path).exists() for path in copied)
    extras = re.findall(r"\.whl\)\[([\w,]+)\]", text)[0].split(",")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, hatch = settings["project"], settings["tool"]["hatch"]
    assert set(extras) <= set(project["optional-dependencies"])
    assert "gamay" in project["scripts"]
    # what the wheel is built from, so that it can be built of what is copied
    wheel = hatch["build"]["targets"]["wheel"]
    hooks = (hatch["metadata"]["hooks"]["custom"]["path"], wheel["hooks"]["custom"]["path"])
    needed = {Path(path).parts[0] for path in (*project["license-files"], *wheel["packages"], *hooks)}
    assert needed | {"pyproject.toml", "README.md"} <= copied
    datasource = loaded("grafana/provisioning/datasources/prometheus.yml")["datasources"][0]
    board = json.loads((DEPLOY / "grafana/dashboards/gamay.json").read_text())
    assert {panel["datasource"]["uid"] for panel in board["panels"] if "targets" in panel} == {datasource["uid"]}
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("answer", "status"), [(b"HTTP/1.1 200 OK", 0), (b"HTTP/1.1 503 Service Unavailable", 1), (None, 1)]
)
def test_the_check_of_health_asks_whichever_role_listens(answer: bytes | None, status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as closed:
        port, nobody = listening.getsockname()[1], closed.getsockname()[1]
        closed.close()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                assert connection.recv(1000).startswith(b"GET /health HTTP/1.0\r\n")
                connection.sendall((answer or b"") + b"\r\n\r\n")

        thread = threading.Thread(target=serve)
        if answer is not None:
            thread.start()
        ports = f"{nobody} {port}" if answer is not None else str(nobody)
        done = subprocess.run(["bash", str(DEPLOY / "healthy.sh")], env={"GAMAY_HEALTH_PORT": ports}, check=False)
        assert done.returncode == status
        if answer is not None:
            thread.join()


CHART = DEPLOY / "helm" / "gamay"


def test_the_chart_gives_options_that_there_are_at_the_ports_of_the_roles() -> None:
    text = (CHART / "templates" / "roles.yaml").read_text()
    options = set(re.findall(r"^ +- (--[a-z-]+)$", text, re.M))
    ports = dict(re.findall(r'"(controller|broker|server|minion)" (\d+)', text))
    assert ports == {role.value.lower(): str(DEFAULT_PORTS[role]) for role in Role}
    for role in ports:
        command = get_command(app).commands["start"].commands[role]  # type: ignore[attr-defined]
        known = {name for option in command.params for name in option.opts}
        assert options - known <= {"--deep-store", "--data-dir"}, role
    assert {"--zk", "--host", "--config-file", "--tls-cert"} <= options
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == gamay.__version__
    assert health_ports() == list(ports.values())
    assert f"EXPOSE {' '.join(ports.values())} " in (DEPLOY / "Dockerfile").read_text()


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
@pytest.mark.parametrize(
    "more", [[], ["tls.secret=t", "minion.replicas=1", "serviceMonitor.enabled=true", "config.broker=a=b"]]
)
def test_the_chart_renders(more: list[str]) -> None:
    given = [word for one in more for word in ("--set", one)]
    done = subprocess.run(["helm", "template", "x", str(CHART), *given], capture_output=True, text=True, check=True)
    kinds = [document["kind"] for document in yaml.safe_load_all(done.stdout) if document]
    assert kinds.count("StatefulSet") == (5 if more else 4)


def test_the_unit_of_systemd_starts_roles_by_their_files() -> None:
    text = (DEPLOY / "systemd" / "gamay@.service").read_text()
    (start,) = re.findall(r"^ExecStart=\S+ start %i (.*)$", text, re.M)
    assert start == "--config-file /etc/gamay/%i.properties $GAMAY_OPTIONS"
    assert "KillSignal=SIGTERM" in text
