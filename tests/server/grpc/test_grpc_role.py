"""The gRPC port of a server in a separate process."""

from pathlib import Path

import grpc
import pytest
from tests.embedded.test_tls import Certificates
from tests.server.grpc.test_submit import call
from tests.waiting import PATIENCE_S

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import Role
from gamay.roles.processes import role_process
from gamay.roles.server_process import ServerProcess
from gamay.roles.settings import load_settings


def test_a_server_tells_its_port_and_encrypts_it(zookeeper_hosts: str, tmp_path: Path) -> None:
    pem = Certificates(tmp_path)
    given = {"zk": zookeeper_hosts, "port": 0, "query_port": 0, "grpc_port": 0, "warm_up": False, "drain_s": 0}
    files = {"data_dir": tmp_path / "data", "tls_cert": pem.cert, "tls_key": pem.key}
    process = role_process(load_settings(Role.SERVER, None, {**given, **files}))
    assert isinstance(process, ServerProcess)
    process.start()
    try:
        known = process.registry.get_instance(process.id)
        assert known is not None
        assert known.grpc_port == process.grpc_port
        trusted = grpc.ssl_channel_credentials(pem.ca.read_bytes())
        channel = grpc.secure_channel(f"localhost:{process.grpc_port}", trusted)
        with pytest.raises(grpc.RpcError, match="Table not found: trips_OFFLINE is not on this server"):
            list(call(None, "SELECT n FROM trips_OFFLINE", [], channel))
    finally:
        process.stop()
    with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        list(call(process.grpc_port, "SELECT n FROM trips_OFFLINE", [], timeout=PATIENCE_S))


def test_encryption_needs_a_certificate(tmp_path: Path) -> None:
    file = tmp_path / "server.conf"
    file.write_text("pinot.zk.server=zk\npinot.server.grpctls.enabled=true\npinot.server.grpc.port=0\n")
    with pytest.raises(InvalidConfigError, match="needs a certificate"):
        role_process(load_settings(Role.SERVER, file, {"data_dir": tmp_path / "data", "port": 0}))
