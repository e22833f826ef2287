"""What two processes of a cluster prove to each other when they connect: that they know its secret, without telling it.

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
    """What all processes of a cluster know and nobody else. random: returns `NONCE_BYTES` that nobody can foresee."""

    secret: bytes = field(default=b"", repr=False)
    random: Callable[[], bytes] = _random

    def proof(self, side: Side, own: bytes, theirs: bytes) -> bytes:
        """Return what a side proves with. own, theirs: the random numbers that it and the other side said hello with."""
        # numbers of one length: where one ends and the next begins is no question
        return hmac.digest(self.secret, b"\0".join((_PURPOSE, side.value, own + theirs)), "sha256")

    def is_proof(self, given: bytes, side: Side, own: bytes, theirs: bytes) -> bool:
        """Tell whether a side has proven that it knows the secret; takes as long for every wrong proof."""
        return len(own) == len(theirs) == NONCE_BYTES and hmac.compare_digest(given, self.proof(side, own, theirs))


NO_SECRET = ClusterSecret()
"""Of connections that only tests and benchmarks make: both sides prove that they have none."""
