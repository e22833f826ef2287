"""Ports for processes that are about to start, and may be stopped and started again."""

import socket

from gamay.base.rng import new_rng

_PORTS = range(10_000, 32_000)
"""Below those that systems give to outgoing connections, any of which could take a port before its process listens."""

_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return an unused port of the loopback interface, which no other caller on this machine gets.

    The UDP port of the same number says that it is taken, until this process ends.
    """
    rng = new_rng()
    while True:
        port = rng.choice(_PORTS)
        mark = socket.socket(type=socket.SOCK_DGRAM)
        try:
            mark.bind(("127.0.0.1", port))
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))
        except OSError:
            mark.close()
            continue
        _reserved.append(mark)
        return port
