"""A local server of S3's protocol that counts requests."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster.ports import free_port


@dataclass(frozen=True)
class Asked:
    """One request. key: the access key that signed it. sent: bytes of the answer."""

    method: str
    path: str
    key: str
    sent: int


class CountedS3:
    """An object store with one bucket. asked: all requests so far."""

    bucket = "bucket"
    secret = "very-secret"

    def __init__(self) -> None:
        import boto3  # type: ignore[import-untyped]
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.WARNING)  # a line for each request
        self.asked: list[Asked] = []
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
        self._server.start()
        http: Any = self._server._server
        self.endpoint = f"http://127.0.0.1:{http.server_address[1]}"
        http.app = self._counted(http.app)
        access = {"aws_access_key_id": "owner", "aws_secret_access_key": self.secret, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=self.endpoint, **access).create_bucket(Bucket=self.bucket)

    def options(self, key: str) -> dict[str, Any]:
        """Return the arguments of an fsspec file system whose requests have a key."""
        client = {"endpoint_url": self.endpoint, "region_name": "us-east-1"}
        return {"key": key, "secret": self.secret, "client_kwargs": client}

    def asked_by(self, key: str, method: str, suffix: str) -> list[Asked]:
        """Return the requests with a key and a method, for names with a suffix."""
        return [one for one in self.asked if (one.key, one.method) == (key, method) and one.path.endswith(suffix)]

    def stop(self) -> None:
        """End the server."""
        self._server.stop()

    def _counted(self, app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        def counted(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            key = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition("/")[0]
            method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]

            def begun(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                sizes = [int(value) for name, value in headers if name.lower() == "content-length"]
                self.asked.append(Asked(method, path, key, 0 if method == "HEAD" else sum(sizes)))
                return start(status, headers, *more)

            return app(environ, begun)

        return counted
