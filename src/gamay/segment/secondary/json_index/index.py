"""JSON index: the docs of each value at each path of a column's documents (`files` has the format).

Pinot numbers flattened documents, one for each combination of elements of a document's arrays, and its index defines the
result of JSON_MATCH. Here the result is the same with and without the index. A condition on one path, or on several of which
at most one leads through an array, is answered by docs alone. For others the docs are candidates: each part holds in some
element, and the documents are then read. Values that are not in the index are left to the scan.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.model.index.json_index import json_index_config
from gamay.model.types import DataType
from gamay.segment.secondary.json_index.ask import JsonIndex
from gamay.segment.secondary.json_index.files import StoredTerms, check_index, write_index
from gamay.segment.secondary.json_index.flatten import flatten
from gamay.segment.spi import Ids, IndexSource

_TYPES = (DataType.STRING, DataType.JSON, DataType.MAP)
_BATCH_ROWS = 1 << 16
_log = logging.getLogger(__name__)


class JsonIndexType:
    """The `json` index type."""

    kind = "json"
    needs = None
    extra = None
    of_blocks = True
    is_portable = True

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        (column,) = columns
        if column.data_type not in _TYPES or not column.single_value:
            raise InvalidConfigError(f"the JSON index of '{column.name}' needs a single-value column of STRING, JSON or MAP")
        config = json_index_config(settings)
        leaves = flatten(_documents(column), config.holds)
        if len(leaves.invalid) and not config.skip_invalid_json:
            what = "entry of the dictionary" if column.dictionary is not None else "row"
            _log.warning(
                "the column '%s' has %d texts that are no JSON, the first is %s %d; JSON_MATCH does not find them "
                "(skipInvalidJson of the JSON index says that this is known)",
                column.name, len(leaves.invalid), what, leaves.invalid[0],
            )  # fmt: skip
        return write_index(leaves, _entries_of_rows(column), config.max_value_length, folder)

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> JsonIndex:
        return JsonIndex(columns[0].name, StoredTerms.read(folder, content), json_index_config(settings))

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        check_index(folder, content, f"{self.kind} index of '{columns[0].name}'", columns[0].num_docs)


def _documents(column: IndexSource) -> Iterator[pa.StringArray]:
    """Yield the texts of the dictionary's entries, which are fewer, or else of the rows."""
    if column.dictionary is not None:
        values = column.dictionary.values.values
        yield from (values[at : at + _BATCH_ROWS] for at in range(0, len(values), _BATCH_ROWS))
        return
    for at in range(0, column.num_docs, _BATCH_ROWS):
        yield column.values(at, min(at + _BATCH_ROWS, column.num_docs)).values


def _entries_of_rows(column: IndexSource) -> "Ids | None":
    if column.dictionary is None:
        return None
    return np.concatenate(
        [np.empty(0, np.int64)]
        + [column.ids(at, min(at + _BATCH_ROWS, column.num_docs)) for at in range(0, column.num_docs, _BATCH_ROWS)]
    ).astype(np.int64)


JSON = JsonIndexType()
