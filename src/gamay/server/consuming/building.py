"""Building: sealing of a consumer's rows into a segment."""

import shutil
from collections.abc import Callable
from pathlib import Path

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Status
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.spi import DocIds
from gamay.server.consuming.builds import lease
from gamay.server.consuming.context import SegmentContext
from gamay.server.consuming.status import BuiltSegment
from gamay.storage.archive import ZSTD_LEVEL_QUICK, pack


class SegmentBuild:
    """Build of one segment, on its consumer's thread. built: the last result, None before the first build and after a
    discard."""

    def __init__(self, context: SegmentContext, rows: MutableSegment) -> None:
        self._context, self._rows = context, rows
        self._folder: Path | None = None
        self.built: BuiltSegment | None = None

    @property
    def folder(self) -> Path:
        """The folder of the segment that was built."""
        if self._folder is None:
            raise RuntimeError(f"no segment was built for {self._context.segment}")
        return self._folder

    def run(self, lease_s: float | None, extend: Callable[[int], Status], kept: "Callable[[], DocIds | None]") -> str | None:
        """Build the segment, replacing a former build; return the reason for a failure, None on success.

        lease_s: interval at which `extend` requests more seconds from the controller. kept: returns the rows to keep in the
        segment, None for all.
        """
        self.discard()
        context, clock = self._context, self._context.clock
        begun_s = clock.monotonic_s()
        out = context.new_folder("build")
        try:
            with lease(lease_s, extend), context.server.permits.taken():
                building_s = clock.monotonic_s()
                folder = self._rows.seal(out, kept(), durable=False)
        except (GamayError, OSError, MemoryError) as error:
            shutil.rmtree(out, ignore_errors=True)
            context.counts.build_failures += 1
            reason = f"the segment cannot be built: {error}"
            context.note_error(reason, permanent=True)
            return reason
        context.counts.build_s = clock.monotonic_s() - building_s
        size, now_ms = sum(path.stat().st_size for path in folder.iterdir()), clock.now_ms()
        took_ms, wait_ms = round(context.counts.build_s * 1000), round((building_s - begun_s) * 1000)
        self._folder = folder
        self.built = BuiltSegment(context.segment, self._rows.num_docs, size, took_ms, wait_ms, now_ms)
        context.memory.note_build(self.built)
        context.memory.history.record(self._rows.sizing(), now_ms)
        return None

    def archive(self) -> Path:
        """Return the archive of the built segment, which is packed on first use."""
        archive = self.folder.parent / f"{self._context.segment}.tar.zst"
        if not archive.exists():
            pack(self.folder, archive, ZSTD_LEVEL_QUICK)  # the partition waits for it
        return archive

    def discard(self) -> None:
        """Remove the built segment, if any."""
        folder, self._folder, self.built = self._folder, None, None
        if folder is not None:
            shutil.rmtree(folder.parent, ignore_errors=True)
