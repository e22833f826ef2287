"""Conversion of texts to tokens, the numbers of their words among the terms of a column, in batches."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.errors import InvalidConfigError
from gamay.functions.search.counted import text_batches
from gamay.functions.search.words import lower_case, words_of
from gamay.model.types import DataType
from gamay.segment.encode.dictionary import sort_distinct
from gamay.segment.encode.forward import id_dtype
from gamay.segment.spi import Ids, IndexSource

_TOKENS_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Tokens:
    """The words of a column's texts in their order.

    terms: BinaryArray, the distinct words, ascending by their UTF-8 bytes. numbers: the narrowest of uint8, uint16 and
    uint32 [words], the term of each word. bounds: int32 [texts + 1], text i has the words from bounds[i] to
    bounds[i + 1]. texts: int32 [rows + 1], the first text of each row; None where each row is one text.
    """

    terms: pa.BinaryArray
    numbers: Ids
    bounds: Ids
    texts: "Ids | None"

    @property
    def row_bounds(self) -> Ids:
        """int32 [rows + 1]: the first word of each row."""
        return self.bounds if self.texts is None else self.bounds[self.texts]


def tokens_of(column: IndexSource, *, case_sensitive: bool) -> Tokens:
    """Return the words of all texts of a column; raises InvalidConfigError if there are more than int32 can count."""
    terms, codes, words, texts = [], [], [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    num_words = num_texts = 0
    for _, batch in text_batches(column.values, column.num_docs):
        values, offsets = batch.values, batch.offsets
        found = words_of(values if case_sensitive else lower_case(values))
        batch_codes, entries = found.distinct()
        terms.append(entries.view(pa.binary()))
        codes.append(batch_codes)
        words.append(num_words + found.bounds[1:].astype(np.int64))
        if offsets is not None:
            texts.append(num_texts + offsets[1:].astype(np.int64))
        num_words, num_texts = num_words + len(found), num_texts + len(values)
    if num_words > _TOKENS_MAX:
        raise InvalidConfigError(
            f"the texts of '{column.name}' have {num_words:,} words in one segment, more than {_TOKENS_MAX:,} for a text "
            "index: make segments smaller"
        )
    distinct, ranks = sort_distinct(terms, DataType.STRING)
    numbers = np.empty(num_words, id_dtype(len(distinct)))
    place = 0
    for of_batch, rank in zip(codes, ranks, strict=True):
        numbers[place : place + len(of_batch)] = rank[of_batch]
        place += len(of_batch)
    rows = None if column.single_value else np.concatenate(texts).astype(np.int32)
    return Tokens(distinct, numbers, np.concatenate(words).astype(np.int32), rows)
