"""Functions of a query about itself, reqId(''), cid(''), startTime(''), …, and sleep(ms), which delays it."""

import time
from dataclasses import dataclass

from gamay.base.errors import QueryError
from gamay.functions.arguments import wrong
from gamay.functions.convert import convert_value
from gamay.functions.expression import Call, Literal, LiteralValue
from gamay.functions.scalar.table.diagnostics import answer_type
from gamay.model.types import DataType
from gamay.query.limits.deadline import Deadline

_SLICE_S = 0.02
_NO_STAGE = -1  # only multi-stage queries have stages and workers


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """One query as its broker sees it. engine: sse or mse. started_ms: arrival, in milliseconds since 1970."""

    request_id: str
    client_id: str
    broker_id: str
    engine: str
    started_ms: int
    deadline: Deadline

    def answer(self, call: Call) -> Literal:
        """Return the answer to a call of `gamay.functions.scalar.table.diagnostics`; raises QueryError for bad arguments."""
        returns = answer_type(call)
        arguments = [arg for arg in call.args if isinstance(arg, Literal)]
        return Literal(self._slept(arguments[0]) if call.name == "sleep" else self._facts()[call.name], returns)

    def _facts(self) -> dict[str, LiteralValue]:
        return {
            "reqid": self.request_id,
            "cid": self.client_id,
            "brokerid": self.broker_id,
            "queryengine": self.engine,
            "starttime": self.started_ms,
            "endtime": self.started_ms + round(self.deadline.timeout_ms),
            "stageid": _NO_STAGE,
            "workerid": _NO_STAGE,
        }

    def _slept(self, argument: Literal) -> LiteralValue:
        """Sleep as a slow query would: the deadline applies, and the query can be cancelled."""
        try:
            millis = convert_value(argument.value, argument.type, DataType.LONG) if argument.value is not None else None
        except QueryError:  # a text that is not a number
            millis = None
        if not isinstance(millis, int) or millis < 0:
            raise wrong("sleep", "the argument is a number of milliseconds, from 0")
        clock = self.deadline.clock
        ends_s = clock.monotonic_s() + millis / 1000
        while (left_s := ends_s - clock.monotonic_s()) > 0:
            self.deadline.check()
            time.sleep(min(left_s, _SLICE_S))
        return millis
