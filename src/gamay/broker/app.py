"""The broker's HTTP interface."""

from collections.abc import Callable
from functools import partial

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.legacy import answer_pql, pql_text, refused_pql
from gamay.broker.query_checks import fingerprint, syntax_report
from gamay.broker.query_endpoint import ERROR_CODE_HEADER, HTTP_STATUS_HEADER, AsgiApp, QueryAnswers, QueryEndpoint
from gamay.broker.query_protocol import QueryProtocol
