"""Compilation of kernels: the most common before a process reports that it is ready, the rest while it runs."""

import logging
import threading

from gamay.roles.memory import release

_log = logging.getLogger(__name__)
_LOOK_S = 0.5


class Warming:
    """Warm-up that compiles kernels, or loads compiled ones, on a thread that ends soon after `stop`, or when the
    program does.

    The other kernels are compiled afterwards by a low-priority process, once per installation. of_broker: include the
    kernels that merge results of servers in other processes.
    """

    def __init__(self, *, of_broker: bool = False) -> None:
        self._of_broker = of_broker
        self._done = threading.Event()
        self._stopped = threading.Event()
        self.progress = (0, 1)
        """The number of compiled kinds of work, and their total."""

    @property
    def done(self) -> bool:
        """Whether everything is compiled."""
        return self._done.is_set()

    def start(self) -> None:
        """Start the thread. It is not a daemon, because the program must not end while a kernel reads memory that
        would be unmapped."""
        threading.Thread(target=self._compile, name="warm-up").start()

    def stop(self) -> None:
        """Stop after the current compilation."""
        self._stopped.set()

    def skip(self) -> None:
        """Skip the warm-up; the first queries are then slow."""
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is compiled; return False after the timeout."""
        return self._done.wait(timeout_s)

    def _compile(self) -> None:
        from gamay.server.warmup.queries import warm_up

        try:
            seconds = warm_up(threads=1, over_wire=self._of_broker, is_wanted=self._is_wanted, tell=self._tell)
        except Exception:  # noqa: BLE001 - queries compile kernels on demand, so they are slow at first, not broken
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
        # the program ends after its main thread, and then waits for the other threads
        return not self._stopped.is_set() and threading.main_thread().is_alive()
