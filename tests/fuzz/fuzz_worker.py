"""Runs queries until the number is reached, and prints what is wrong with an answer: one JSON object per line.

    python -m tests.fuzz.fuzz_worker --inputs 100000 --seed 7 [--first 0] [--state FILE] [--cases FILE]
        [--messages FILE] [--show]

Wrong is an answer that blames a defect of Gamay, that is no JSON or is inconsistent in itself, or that took longer than
`SLOW_S`. Of failures at the same place in the code one is printed, made as short as possible. `state` is a file whose
first 8 bytes are the number of the input at hand: when the process dies, or 64 inputs take `HANG_S`, it says where.
`cases` are texts with the code that each must have, one JSON object a line. `--show` prints the inputs instead of asking
them. `messages` are wrong queries with what is said to each; `GAMAY_UPDATE=1` writes that anew.
"""

import argparse
import faulthandler
import json
import logging
import os
import resource
import struct
import tempfile
import time
import traceback
from collections import Counter
from mmap import mmap
from pathlib import Path
from random import Random
from typing import Any

import orjson
from tests.fuzz.fuzz_functions import working_calls
from tests.fuzz.fuzz_text import _TOKEN, Request, TextMaker
from tests.fuzz.fuzz_world import World

from gamay.base.errors import ErrorCode
from gamay.functions.registry import function_names

SLOW_S = 5.0
"""Of the processor: on the clock everything is slow while others keep it busy."""
HANG_S = 300.0
_MESSAGE_MAX = 3000
_MEMORY_BYTES = 6 << 30
# what a user's text may lead to; the others are failures of Gamay, or of a cluster
_CODES = {
    -1,
    *(
        code.code
        for code in (
            ErrorCode.SQL_PARSING,
            ErrorCode.TABLE_DOES_NOT_EXIST,
            ErrorCode.QUERY_EXECUTION,
            ErrorCode.QUERY_SCHEDULING_TIMEOUT,
            ErrorCode.SERVER_RESOURCE_LIMIT_EXCEEDED,
            ErrorCode.EXECUTION_TIMEOUT,
            ErrorCode.QUERY_VALIDATION,
            ErrorCode.UNKNOWN_COLUMN,
        )
    ),
}


class _LastError(logging.Handler):
    """Keeps the exception that was logged last."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.error = record.exc_info[1]


class Fuzzer:
    """Asks, judges, shortens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._errors = _LastError()
        logger = logging.getLogger("gamay")
        logger.addHandler(self._errors)
        logger.propagate = False
        self.codes: Counter[int] = Counter()
        self.failures: Counter[str] = Counter()
        self.slowest = (0.0, b"")

    def ask(self, request: Request) -> tuple[str, str] | None:
        """Return the place and description of what is wrong with the answer; None if nothing is."""
        self._errors.error = None
        started = time.perf_counter()
        try:
            status, headers, content = self._world.ask(*request)
        except Exception as error:  # noqa: BLE001 - whatever comes out of the application is the finding
            return _place(error), "".join(traceback.format_exception(error)[-8:])
        took = time.perf_counter() - started
        if self._errors.error is not None:
            return _place(self._errors.error), "".join(traceback.format_exception(self._errors.error)[-8:])
        if took > SLOW_S:  # the first query of its kind may have waited for the compiler
            started = time.process_time()
            self._world.ask(*request)
            took = time.process_time() - started
            if took > SLOW_S:
                return "slow", f"the answer took {took:.1f} s"
        if took > self.slowest[0]:
            self.slowest = (took, request[3] or request[2])
        if request[0] == "HEAD":
            return ("body", f"HEAD is answered with {content[:200]!r}") if content else None
        return self._judged(status, headers, content)

    def _judged(self, status: int, headers: dict[str, str], content: bytes) -> tuple[str, str] | None:
        if not headers.get("content-type", "").startswith("application/json"):
            return None if status in (200, 404, 405) else ("content type", f"{status} {headers} {content[:200]!r}")
        try:
            answer = json.loads(content, parse_constant=_no_constant)
        except ValueError as error:
            return f"json: {error}"[:40], content[:500].decode(errors="replace")
        if "x-pinot-error-code" not in headers:
            return None if status in (400, 404, 405) else ("status", f"{status} {content[:300]!r}")
        codes = [exception.get("errorCode") for exception in answer.get("exceptions", [])]
        code = int(headers["x-pinot-error-code"])
        self.codes[code] += 1
        if not set(codes) <= _CODES or code != (codes[0] if codes else -1):
            return f"code {codes}", json.dumps(answer.get("exceptions"))
        for exception in answer.get("exceptions", []):
            if not 0 < len(exception["message"].strip()) < _MESSAGE_MAX:
                return "length of the message", exception["message"][:500]
        table = answer.get("resultTable")
        return None if table is None else _inconsistent(table)

    def shortened(self, request: Request, place: str, budget_s: float = 5.0) -> Request:
        """Leave tokens out as long as the failure stays the same."""
        method, path, query, body = request
        try:
            document = orjson.loads(body)
            key = next(k for k in ("sql", "pql") if isinstance(document.get(k), str))
        except (ValueError, StopIteration, AttributeError):
            return request
        ends = time.perf_counter() + budget_s

        def fails(document: dict[str, Any]) -> bool:
            found = self.ask((method, path, query, json.dumps(document).encode()))
            return found is not None and found[0] == place

        for other in [k for k in document if k != key]:
            fewer = {k: v for k, v in document.items() if k != other}
            if fails(fewer):
                document = fewer
        tokens = _TOKEN.findall(document[key])
        size = max(1, len(tokens) // 2)
        while size and time.perf_counter() < ends:
            start, shorter = 0, False
            while start < len(tokens) and time.perf_counter() < ends:
                fewer_tokens = tokens[:start] + tokens[start + size :]
                if fails({**document, key: "".join(fewer_tokens)}):
                    tokens, shorter = fewer_tokens, True
                else:
                    start += size
            size = size if shorter and size == 1 else size // 2
        return (
            method,
            path,
            query,
            json.dumps({**document, key: "".join(tokens)}, ensure_ascii=False).encode("utf-8", "surrogatepass"),
        )

    def report(self, number: int, request: Request, found: tuple[str, str]) -> None:
        """Print a failure, the first at its place in full."""
        place, detail = found
        self.failures[place] += 1
        if self.failures[place] > 1:
            return
        if place != "slow":
            request = self.shortened(request, place)
        shown = " ".join(part if isinstance(part, str) else part[:4000].decode(errors="replace") for part in request)
        print(json.dumps({"number": number, "place": place, "request": shown, "detail": detail}), flush=True)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/gamay/" in frame.filename] or frames
    return f"{type(error).__name__} {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else type(error).__name__


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _inconsistent(table: dict[str, Any]) -> tuple[str, str] | None:
    names, types = table["dataSchema"]["columnNames"], table["dataSchema"]["columnDataTypes"]
    if len(names) != len(types) or any(len(row) != len(names) for row in table["rows"]):
        return "shape", json.dumps(table)[:500]
    return None


def _request_of(case: dict[str, Any]) -> Request:
    body = {key: case[key] for key in ("sql", "pql", "queryOptions") if key in case}
    return "POST", "/query" if "pql" in case else "/query/sql", b"", json.dumps(body).encode()


def _message(world: World, case: dict[str, Any]) -> str | None:
    """Return the first line of the error of a query; None if it succeeds."""
    answer = orjson.loads(world.ask(*_request_of(case))[2])
    return answer["exceptions"][0]["message"].partition("\n")[0] if answer["exceptions"] else None


def _check_messages(world: World, path: Path, update: bool) -> None:
    """Compare the errors of wrong queries with the file, or write them to it."""
    cases = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    said = [{**case, "says": _message(world, case)} for case in cases]
    if update:
        path.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in said), "utf-8")
        return
    for number, (case, now) in enumerate(zip(cases, said, strict=True)):
        if case != now:
            shown = " ".join(str(part) for part in _request_of(case))
            detail = f"said: {now['says']}\nnot:  {case['says']}"
            print(json.dumps({"number": number, "place": "message", "request": shown, "detail": detail}), flush=True)


def _check_cases(fuzzer: Fuzzer, path: Path) -> None:
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        case = json.loads(line)
        request = _request_of(case)
        before = fuzzer.codes[case["code"]]
        found = fuzzer.ask(request)
        if found is None and fuzzer.codes[case["code"]] == before:
            found = (f"case {number}", f"the code is not {case['code']}")
        if found is not None:
            fuzzer.report(number, request, found)


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--messages", type=Path)
    parser.add_argument("--show", action="store_true", help="print the inputs only")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    maker = TextMaker(arguments.seed, working_calls(Random(1)), function_names())
    numbers = range(arguments.first, arguments.first + arguments.inputs)
    if arguments.show:
        for number in numbers:
            print(number, *maker.request(number))
        return
    with tempfile.TemporaryDirectory(prefix="gamay-fuzz-") as folder:
        world = World(Path(folder))
        fuzzer = Fuzzer(world)
        if arguments.cases is not None:
            _check_cases(fuzzer, arguments.cases)
        if arguments.messages is not None:
            _check_messages(world, arguments.messages, bool(os.environ.get("GAMAY_UPDATE")))
        state = None
        if arguments.state is not None:
            arguments.state.write_bytes(bytes(8))
            with arguments.state.open("r+b") as file:
                state = mmap(file.fileno(), 8)
        started = time.perf_counter()
        for number in numbers:
            if state is not None:
                state[:8] = struct.pack("<q", number)
            if number % 64 == 0:
                faulthandler.dump_traceback_later(HANG_S, exit=True)
            request = maker.request(number)
            found = fuzzer.ask(request)
            if found is not None:
                fuzzer.report(number, request, found)
        took = time.perf_counter() - started
        slowest_s, slowest = fuzzer.slowest
        summary = {
            "inputs": arguments.inputs,
            "seconds": round(took, 1),
            "codes": dict(sorted(fuzzer.codes.items())),
            "failures": dict(fuzzer.failures),
            "slowest": [round(slowest_s, 3), slowest[:300].decode(errors="replace")],
        }
        print(json.dumps({"summary": summary}), flush=True)
        world.close()


if __name__ == "__main__":
    main()
