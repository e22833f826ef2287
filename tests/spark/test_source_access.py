"""Reading and writing with access control enabled."""

import pytest
from tests.embedded.test_access import FILE
from tests.spark.cluster import Cluster

import gamay
from gamay.base.errors import GamayError
from gamay.cluster.access.passwords import basic_token
from gamay.roles.settings import read_access
from gamay.spark import register
from gamay.spark.source import GamayDataSource

pytestmark = pytest.mark.spark
ADMIN, GUEST = {"user": "admin", "password": "verysecret"}, {"token": basic_token("guest", "secret")}


@pytest.fixture
def cluster(tmp_path):
    with gamay.connect(tmp_path / "data") as db:
        for name in ("trips", "pay"):
            db.create_table(name, [{"n": i} for i in range(10)])
    (tmp_path / "access.properties").write_text(FILE)
    running = Cluster(tmp_path, access=read_access(tmp_path / "access.properties"))
    yield running
    running.stop()


def test_who_may_read_and_write(spark, cluster):
    register(spark)

    def source(table, **who):
        return GamayDataSource({"controller": cluster.url, "table": table, **who})

    for who in (ADMIN, GUEST):
        frame = spark.read.format("gamay").options(controller=cluster.url, table="trips", fetch="controller", **who).load()
        assert sorted(row.n for row in frame.collect()) == list(range(10))
    for table, who, status in (("trips", {}, 401), ("trips", {"user": "admin", "password": "x"}, 401), ("pay", GUEST, 403)):
        with pytest.raises(GamayError) as refused:
            source(table, **who).schema()
        assert refused.value.http_status == status
    rows = spark.range(10, 15).withColumnRenamed("id", "n")
    with pytest.raises(Exception, match=r"guest|may not"):
        rows.write.format("gamay").mode("append").options(controller=cluster.url, table="trips", **GUEST).save()
    rows.write.format("gamay").mode("append").options(controller=cluster.url, table="trips", **ADMIN).save()
    again = spark.read.format("gamay").options(controller=cluster.url, table="trips", **ADMIN).load()
    assert sorted(row.n for row in again.collect()) == list(range(15))
