"""Compiling what queries run: the most common before a process says that it is ready, the rest while it works."""

import logging
import threading

from gamay.roles.memory import release

_log = logging.getLogger(__name__)
_LOOK_S = 0.5


class Warming:
    """Compiles kernels, or loads those compiled before, on a thread that ends soon after `stop`, or when the program does.

    Those that these leave out are compiled by another process of low priority after that, once for an installation.

    of_broker: also those that merge what servers in other processes found.
    """

    def __init__(self, *, of_broker: bool = False) -> None:
        self._of_broker = of_broker
        self._done = threading.Event()
        self._stopped = threading.Event()
        self.progress = (0, 1)
        """How many kinds of work are compiled, and how many there are."""

    @property
    def done(self) -> bool:
        """Whether everything is compiled."""
        return self._done.is_set()

    def start(self) -> None:
        """Begin. The program does not end in the middle of a kernel: what it reads would be unmapped beneath it."""
        threading.Thread(target=self._compile, name="warm-up").start()

    def stop(self) -> None:
        """Compile no more than what is being compiled."""
        self._stopped.set()

    def skip(self) -> None:
        """Leave it to the queries, which are slow at first then."""
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is compiled; return whether it is."""
        return self._done.wait(timeout_s)

    def _compile(self) -> None:
        from gamay.server.warmup.queries import warm_up

        try:
            seconds = warm_up(threads=1, over_wire=self._of_broker, is_wanted=self._is_wanted, tell=self._tell)
        except Exception:  # noqa: BLE001 - queries compile what they need, so without this they are slow at first, not broken
            _log.exception("kernels could not be compiled ahead of the first queries")
        else:
            _log.info("kernels are ready after %.1f s", seconds)
            release()
        self._done.set()
        self._compile_others()

    def _compile_others(self) -> None:
        from gamay.kernels.catalog import compiling

        if not self._is_wanted() or compiling.is_compiled():
            return
        (process,) = compiling.start()
        while process.poll() is None and self._is_wanted():
            self._stopped.wait(_LOOK_S)
        process.terminate()
        process.wait()

    def _tell(self, done: int, total: int) -> None:
        self.progress = (done, total)

    def _is_wanted(self) -> bool:
        # The program ends when its main thread has, and then waits for the others.
        return not self._stopped.is_set() and threading.main_thread().is_alive()
