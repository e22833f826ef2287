"""Mutual authentication of two processes of a cluster: each proves that it knows the secret, without revealing it.

Either side says hello with a random number of its own. The caller proves first, and only then the side that answers:

    proof = HMAC-SHA256(secret, side, own number, number of the other side)

The side is part of what is hashed, so that a proof cannot be sent back to whoever made it; the random numbers are those of
this connection, so that a proof that was overheard is of no use. What is sent afterwards is not protected: for that there is
TLS. The construction is that of RFC 2104 in the challenge and response of ISO/IEC 9798-4, mutual, in three passes.
"""

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

NONCE_BYTES = 32
_PURPOSE = b"gamay query port 1"


class Side(Enum):
    """An end of a connection."""

    CALLER = b"caller"
    ANSWERER = b"answerer"

    @property
    def other(self) -> "Side":
        return Side.ANSWERER if self is Side.CALLER else Side.CALLER


def _random() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


@dataclass(frozen=True, slots=True)
class ClusterSecret:
    """The secret shared by all processes of a cluster. random: returns `NONCE_BYTES` unpredictable bytes."""

    secret: bytes = field(default=b"", repr=False)
    random: Callable[[], bytes] = _random

    def proof(self, side: Side, own: bytes, theirs: bytes) -> bytes:
        """Return the proof of a side. own, theirs: its own nonce and that of the other side."""
        # numbers of one length: where one ends and the next begins is no question
        return hmac.digest(self.secret, b"\0".join((_PURPOSE, side.value, own + theirs)), "sha256")

    def is_proof(self, given: bytes, side: Side, own: bytes, theirs: bytes) -> bool:
        """Return whether a proof is right, in constant time."""
        return len(own) == len(theirs) == NONCE_BYTES and hmac.compare_digest(given, self.proof(side, own, theirs))


NO_SECRET = ClusterSecret()
"""The empty secret, for connections of tests and benchmarks only."""
