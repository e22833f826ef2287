"""Requests, queries and uploads, each sent by a principal over a persistent connection."""

import io
import json
import random
import tarfile
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Self
from urllib.parse import quote_from_bytes

import httpx
from tests.fuzz.fuzz_functions import working_calls
from tests.fuzz.fuzz_text import TextMaker

from benchmarks.attack.findings import Findings
from benchmarks.attack.judged import DEFECTS, FORGIVEN, LATE_S
from benchmarks.attack.mutations import mutated
from benchmarks.attack.requests import TABLE, odd_request, routes_of
from benchmarks.attack.segments import content_of, write_mutant
from benchmarks.attack.target import Doors, token, trips_archive
from gamay.functions.registry import function_names
from gamay.storage.archive import pack, unpack


class OverHttp:
    """A connection to HTTP interfaces as one principal."""

    def __init__(self, name: str) -> None:
        self._client = httpx.Client(headers={"authorization": token(name)}, timeout=LATE_S, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _judge(self, request: httpx.Request, number: int, findings: Findings) -> httpx.Response | None:
        """Send a request; return its answer, None where there was none."""
        shown = f"{request.method} {request.url} {dict(request.headers)} {request.read()[:300]!r}"
        began_s = time.monotonic()
        try:
            answer = self._sent(request)
        except httpx.TransportError as error:
            findings.wrongly(number, shown, repr(error))
            return None
        findings.took(time.monotonic() - began_s, shown)
        # what these two refuse is 500 in Pinot
        is_known = request.url.path.startswith("/tableConfigs/") and request.method in ("GET", "DELETE")
        is_wrong = answer.status_code >= 500 and answer.status_code not in FORGIVEN and not is_known
        if is_wrong or any(text in answer.text for text in DEFECTS):
            findings.wrongly(number, shown, f"{answer.status_code} {answer.text}")
        elif answer.status_code >= 400:
            findings.refused()
        else:
            findings.answered()
        return answer

    def _sent(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._client.send(request)
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
            return self._client.send(request)  # the connection was closed after the last answer


class OddRequests(OverHttp):
    """Requests of all documented routes, with odd arguments, by an operator of the table that is attacked."""

    def __init__(self, doors: Doors, seed: int) -> None:
        super().__init__("owner")
        self._urls = doors.urls
        self._routes = routes_of(doors.urls, self._client)

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Send a request of the next route."""
        try:
            request = odd_request(self._routes[number % len(self._routes)], self._urls, rng)
        except (ValueError, httpx.InvalidURL):
            findings.refused()  # by the client
            return
        if "authorization" not in request.headers:
            request.headers["authorization"] = token("owner")
        self._judge(request, number, findings)


@cache
def _known_calls() -> dict[str, list[str]]:
    """Return the function calls to build queries from; finding them takes seconds."""
    return working_calls(random.Random(1))


class Queries(OverHttp):
    """Abnormal queries of a principal with READ on some tables."""

    def __init__(self, doors: Doors, seed: int) -> None:
        super().__init__("guest")
        self._url = doors.urls["broker"]
        self._maker = TextMaker(seed, _known_calls(), function_names())

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Ask a query."""
        method, path, query, body = self._maker.request(number)
        if rng.random() < _LONG_SHARE:
            sql = f"SELECT COUNT(*) FROM t WHERE i = 1 {rng.choice(_LONG)}"
            method, path, query, body = "POST", "/query/sql", b"", json.dumps({"sql": sql}).encode()
        url = f"{self._url}{path}?{quote_from_bytes(query, safe='%=&+')}"
        try:
            request = self._client.build_request(method, url, content=body)
        except httpx.InvalidURL:
            findings.refused()  # by the client
            return
        self._judge(request, number, findings)


class Uploads(OverHttp):
    """Damaged archives and segments, pushed to the attacked table, which is then read."""

    _DELETED_EVERY = 10

    def __init__(self, doors: Doors, seed: int) -> None:
        super().__init__("owner")
        self._urls = doors.urls
        self._folder = tempfile.TemporaryDirectory(prefix="gamay-attack-")
        folder = Path(self._folder.name)
        archive = trips_archive(folder)
        self._archive = archive.read_bytes()
        self._segment = unpack(archive, folder / "segment")
        self._content = content_of(self._segment)

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
        super().__exit__()

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Push an archive, and read the table."""
        controller = self._urls["controller"]
        if rng.random() < 0.4:
            content = damaged_archive(self._archive, rng)
        else:
            write_mutant(self._segment, self._content, rng)
            path = self._segment.parent / "mutant.tar.gz"
            content = pack(self._segment, path).read_bytes()
        push = self._client.build_request(
            "POST", f"{controller}/v2/segments", params={"tableName": TABLE}, files={"file": ("x.tar.gz", content)}
        )
        self._judge(push, number, findings)
        sql = f"SELECT city, tags, COUNT(*), MAX(fare) FROM {TABLE} WHERE city <> 'city 3' GROUP BY city, tags LIMIT 5"
        headers = {"authorization": token("admin")}
        answer = self._client.post(f"{self._urls['broker']}/query/sql", json={"sql": sql}, headers=headers)
        if any(text in answer.text for text in DEFECTS):
            findings.wrongly(number, "the table is read", answer.text)
        if number % self._DELETED_EVERY == 0:
            self._client.delete(f"{controller}/segments/{TABLE}", params={"type": "OFFLINE", "retention": "0d"})


_LONG_SHARE = 0.002
_LONG = (
    f"AND l IN ({', '.join(map(str, range(400_000)))})",
    " ".join(f"OR l = {n}" for n in range(200_000)),
    "AND " + "(" * 1_000_000 + "l = 1" + ")" * 1_000_000,
    f"AND s <> '{'x' * 5_000_000}'",
    f"GROUP BY {', '.join(f'l + {n}' for n in range(3_000))}",
)
_MEMBERS = ("../x", "/etc/x", "a/../../x", "metadata.json", "x" * 300, "a\nb", ".", "é")


def damaged_archive(archive: bytes, rng: random.Random) -> bytes:
    """Return an archive with damaged bytes, or a valid one with members that belong to no segment."""
    if rng.random() < 0.6:
        return mutated(archive, rng)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=rng.choice(("w:gz", "w", "w:bz2"))) as tar:
        for _ in range(rng.randint(1, 4)):
            member = tarfile.TarInfo(rng.choice(_MEMBERS))
            member.type = rng.choice((tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE))
            member.linkname = rng.choice(("", "/etc/passwd", "../x", "metadata.json"))
            content = rng.choice((b"", b"{}", b"[" * 3_000, bytes(1 << 20)))
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
