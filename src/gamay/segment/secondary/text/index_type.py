"""Text index on disk: for each of its columns c, numbered from 0,

    c.terms.offsets := i32[n + 1], c.terms.data := u8*: the distinct words, ascending by their bytes
    c.docs.starts c.docs.counts c.docs.sets := the docs that contain each term, see gamay.segment.index.bitmaps
    c.tokens := u8 | u16 | u32 *: the words of all texts, in order, as numbers of terms; the narrowest for n
    c.bounds := i32[texts + 1]: text i has the tokens [bounds[i], bounds[i + 1])
    c.texts  := i32[num_docs + 1]: row i has the texts [texts[i], texts[i + 1]); only multi-value

Stop words are included, since each query defines them. Phrases are found in the tokens of the rows that have all their
words.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import binary_buffers
from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.forward import id_dtype
from gamay.segment.encode.storage_form import binary_array
from gamay.segment.index.bitmaps import DocSets, docs_by_key, write_sets
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.secondary.text.inverting import Tokens, tokens_of
from gamay.segment.secondary.text.search import Postings, TextIndex
from gamay.segment.spi import IndexSource


class TextIndexType:
    """Implements `IndexType` for columns of texts, single- and multi-value; one index may have several columns.

    settings: caseSensitive, the names of the columns whose words keep their case.
    """

    kind = "text"
    needs = None
    extra = None
    of_blocks = True
    is_portable = True

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        for column in columns:
            if not column.data_type.is_text:
                raise InvalidConfigError(
                    f"the text index of '{column.name}' needs texts, not values of type {column.data_type.value}"
                )
        terms: list[int] = []

        def write(writer: BufferWriter) -> list[BufferMeta]:
            written: list[BufferMeta] = []
            for number, column in enumerate(columns):
                tokens = tokens_of(column, case_sensitive=_is_case_sensitive(settings, column.name))
                terms.append(len(tokens.terms))
                written += _write_column(writer, number, tokens)
            return written

        return {"buffers": write_buffers(folder, write), "terms": terms}

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> TextIndex:
        file, buffers = read_buffers(folder, content["buffers"])
        return TextIndex(
            {
                column.name: _postings(
                    file, buffers, number, column, case_sensitive=_is_case_sensitive(settings, column.name)
                )
                for number, column in enumerate(columns)
            }
        )

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        file, buffers = read_buffers(folder, content["buffers"])
        for number, (column, num_terms) in enumerate(zip(columns, content["terms"], strict=True)):
            checker = BufferChecker(file, buffers, f"text index of '{column.name}'")
            _check_column(checker, number, column, int(num_terms))


def _is_case_sensitive(settings: Mapping[str, Any], column: str) -> bool:
    return column in settings.get("caseSensitive", ())


def _write_column(writer: BufferWriter, number: int, tokens: Tokens) -> list[BufferMeta]:
    offsets, data = binary_buffers(tokens.terms)
    starts, docs = docs_by_key(tokens.numbers, len(tokens.terms), tokens.row_bounds)
    return [
        writer.add(f"{number}.terms.offsets", [offsets]),
        writer.add(f"{number}.terms.data", [data]),
        *write_sets(writer, f"{number}.docs", starts, docs),
        writer.add(f"{number}.tokens", [tokens.numbers]),
        writer.add(f"{number}.bounds", [tokens.bounds]),
        *([] if tokens.texts is None else [writer.add(f"{number}.texts", [tokens.texts])]),
    ]


def _postings(
    file: BufferFile, buffers: dict[str, BufferMeta], number: int, column: IndexSource, *, case_sensitive: bool
) -> Postings:
    offsets = file.array(buffers[f"{number}.terms.offsets"], np.int32)
    return Postings(
        terms=binary_array(offsets, file.array(buffers[f"{number}.terms.data"], np.uint8)),
        docs=DocSets(file, buffers, f"{number}.docs"),
        tokens=file.array(buffers[f"{number}.tokens"], id_dtype(len(offsets) - 1)),
        bounds=file.array(buffers[f"{number}.bounds"], np.int32),
        texts=None if column.single_value else file.array(buffers[f"{number}.texts"], np.int32),
        case_sensitive=case_sensitive,
    )


def _check_column(checker: BufferChecker, number: int, column: IndexSource, num_terms: int) -> None:
    kind = f"{number}.terms"
    offsets = checker.array(f"{kind}.offsets", np.int32, num_terms + 1)
    data = checker.array(f"{kind}.data", np.uint8)
    checker.offsets(f"{kind}.offsets", offsets, len(data))
    terms = binary_array(offsets, data)
    try:
        terms.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        checker.expect(f"{kind}.data", False, "terms that are not UTF-8")
    checker.expect(kind, pc.all(pc.greater(terms[1:], terms[:-1])).as_py() is not False, "terms do not ascend")
    checker.sets(f"{number}.docs", num_terms, column.num_docs)
    tokens = checker.array(f"{number}.tokens", id_dtype(num_terms))
    checker.expect(f"{number}.tokens", len(tokens) == 0 or tokens.max() < num_terms, "tokens beyond the terms")
    num_texts = column.num_docs
    if not column.single_value:
        texts = checker.array(f"{number}.texts", np.int32, column.num_docs + 1)
        num_texts = int(texts[-1])
        checker.offsets(f"{number}.texts", texts, num_texts)
    bounds = checker.array(f"{number}.bounds", np.int32, num_texts + 1)
    checker.offsets(f"{number}.bounds", bounds, len(tokens))


TEXT = TextIndexType()
