"""The manifest of the segments that a job has built: only these are pushed, regardless of other files in the folder.

`<outputDirURI>/<typed table>.manifest.json` is written at the start of a build (`"state": "building"`) and at its successful
end (`"complete"`, with the segments), so that neither archives of earlier runs nor those of a failed one are pushed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gamay.base.errors import ConflictError, NotFoundError
from gamay.spark.building.report import SegmentReport
from gamay.spark.building.target import scratch_folder
from gamay.storage.files import Access, fetch, put, remove

_BUILDING, _COMPLETE = "building", "complete"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one table's job. access: parameters of the output folder's file system."""

    output_dir: str
    table: str
    access: Access

    @property
    def uri(self) -> str:
        """The location of the manifest."""
        return f"{self.output_dir.rstrip('/')}/{self.table}.manifest.json"

    def begin(self) -> None:
        """Record that segments are being built: until `complete`, nothing may be pushed."""
        self._write({"state": _BUILDING, "segments": []})

    def complete(self, segments: Sequence[SegmentReport]) -> None:
        """Record the segments that were built."""
        told = [{"name": s.name, "uri": s.uri, "rows": s.num_docs, "bytes": s.size_bytes} for s in segments]
        self._write({"state": _COMPLETE, "segments": told})

    def archives(self) -> list[str] | None:
        """Return the URIs of the archives of the last job; None if there was none.

        Raises ConflictError if it has not succeeded.
        """
        with scratch_folder() as scratch:
            try:
                fetch(self.uri, scratch / "manifest.json", self.access)
            except NotFoundError:
                return None
            document = json.loads((scratch / "manifest.json").read_text(encoding="utf-8"))
        if document["state"] != _COMPLETE:
            raise ConflictError(
                f"the last job that built segments of {self.table} into {self.output_dir} has not ended, or has failed, as "
                f"{self.uri} tells: run it again before pushing"
            )
        return [segment["uri"] for segment in document["segments"]]

    def remove(self) -> None:
        """Remove the manifest."""
        remove(self.uri, self.access)

    def _write(self, document: object) -> None:
        with scratch_folder() as scratch:
            path = scratch / "manifest.json"
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            put(path, self.uri, self.access)
