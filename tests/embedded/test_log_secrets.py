"""No secrets in the log, at any level."""

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from gamay.base.logs import JsonFormatter
from gamay.cluster.access.passwords import basic_token
from gamay.cluster.records.records import Role
from gamay.embedded import EmbeddedCluster
from gamay.roles.settings import load_settings, read_access

PASSWORD, STREAM_PASSWORD, WRONG = "pa55-of-admin", "pa55-of-kafka", "pa55-mistyped"
FILE = f"""
controller.admin.access.control.factory.class=BasicAuthAccessControlFactory
controller.admin.access.control.principals=admin
controller.admin.access.control.principals.admin.password={PASSWORD}
pinot.broker.access.control.class=BasicAuthAccessControlFactory
pinot.broker.access.control.principals=admin
pinot.broker.access.control.principals.admin.password={PASSWORD}
"""
SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "n", "dataType": "INT"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}
STREAM = {
    "streamType": "log",
    "stream.log.topic.name": "none",
    "stream.log.decoder.class.name": "JSONMessageDecoder",
    "stream.log.decoder.prop.schema.registry.rest.url": f"http://registry:{STREAM_PASSWORD}@localhost:1/",
    "stream.log.consumer.prop.sasl.jaas.config": f"password='{STREAM_PASSWORD}'",
    "sasl.password": STREAM_PASSWORD,
}
TABLE: dict[str, Any] = {
    "tableName": "t",
    "tableType": "REALTIME",
    "segmentsConfig": {"replication": "1", "timeColumnName": "ts"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
    "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [STREAM]}},
}


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "access.properties"
    file.write_text(FILE)
    caplog.set_level(logging.DEBUG)
    admin, wrong = ({"Authorization": basic_token("admin", word)} for word in (PASSWORD, WRONG))
    with (
        EmbeddedCluster(tmp_path / "data", 0, 0, 0, threads=1, warm_up=False, access=read_access(file)) as cluster,
        httpx.Client() as http,
    ):
        for headers in (admin, wrong, {}):
            http.post(f"{cluster.controller_url}/schemas", json=SCHEMA, headers=headers)
            http.post(f"{cluster.controller_url}/tables", json=TABLE, headers=headers)
            http.post(f"{cluster.controller_url}/tables/validate", json=TABLE, headers=headers)
            http.post(f"{cluster.broker_url}/query/sql", json={"sql": "SELECT 1/0 FROM t"}, headers=headers)
            http.get(f"{cluster.controller_url}/nowhere", headers=headers)
    roles = tmp_path / "server.properties"
    roles.write_text(f"pinot.server.instance.auth.token={PASSWORD}\npinot.zk.server=localhost:1\n")
    settings = load_settings(Role.SERVER, roles, {"data_dir": tmp_path})
    assert PASSWORD in settings.auth_token
    logging.getLogger("gamay.test").debug("%r", settings)
    formatter = JsonFormatter()
    written = "\n".join(formatter.format(record) for record in caplog.records)
    assert len(caplog.records) > 5
    secrets = (PASSWORD, STREAM_PASSWORD, WRONG, *(headers["Authorization"].split()[1] for headers in (admin, wrong)))
    for secret in secrets:
        assert secret not in written, [line for line in written.splitlines() if secret in line][:3]
