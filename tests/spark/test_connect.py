"""Spark Connect gives the same results as classic Spark. All of it runs in one separate process, `connect_paths`."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from tests.spark.cluster import Cluster

from gamay.spark.session.local import LOOPBACK

pytestmark = pytest.mark.spark


def is_missing(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is None
    except ModuleNotFoundError:  # of what it is in
        return True


if missing := [package for package in ("grpc", "grpc_status", "google.rpc", "zstandard") if is_missing(package)]:
    pytest.skip(f"{', '.join(missing)} of pyspark[connect] are not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory):
    port = spark.conf.get("spark.connect.grpc.binding.port")
    folder = tmp_path_factory.mktemp("connect")
    cluster = Cluster(folder)
    try:
        command = [sys.executable, "-m", "tests.spark.connect_paths", cluster.url, str(folder)]
        environment = {**os.environ, "SPARK_REMOTE": f"sc://{LOOPBACK}:{port}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])
    finally:
        cluster.stop()


CASES = {
    "append": 100,
    "filtered": [1, 6, 11, 16],
    "replace_where": [100, sum(range(100)) + 10 * 1000],
    "pushed_query": [[f"c{n}", 20] for n in range(5)],
    "views": 100,
    "dry": 30,
    "feed": 100,
    "stream": 40,
    "job": 30,
    "archives": 40,
}


@pytest.mark.parametrize("path", CASES)
def test_what_users_do(found, path):
    assert found[path] == CASES[path]
