"""One dictionary for each key instead of one for each segment: merged once, not again in each partition."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import Key, common_codes
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.query.groupby.table import GroupTable


class CommonDictionaries:
    """The dictionaries of the keys of some tables, merged by key. Keys without dictionaries, or with large ones, stay as
    they are."""

    def __init__(self, tables: Sequence[GroupTable]) -> None:
        num_groups = sum(table.num_groups for table in tables)
        self._of_keys = [_common(keys, num_groups) for keys in zip(*(table.keys for table in tables), strict=True)]

    def recoded(self, table: GroupTable) -> GroupTable:
        """Return one of the tables, or some of its groups, encoded with the common dictionaries."""
        keys = tuple(map(_recoded, table.keys, self._of_keys))
        return GroupTable(keys, table.partials, table.num_groups, table.limit_reached)


_Codes: TypeAlias = dict[int, tuple[Array, Vector]]
"""By the identity of a dictionary's values: the positions of its values in the common dictionary, and that dictionary."""


def _common(keys: Sequence[Key], num_groups: int) -> _Codes:
    encoded = [key for key in keys if isinstance(key, EncodedVector)]
    dictionaries = list({id(key.dictionary.values): key.dictionary for key in encoded}.values())
    if len(encoded) < len(keys) or not 1 < len(dictionaries) <= sum(map(len, dictionaries)) <= num_groups:
        return {}
    coder, codes = common_codes(dictionaries)
    decoded = coder.decode(np.arange(coder.num_codes))
    common = decoded.decode() if isinstance(decoded, EncodedVector) else decoded
    return {id(one.values): (places, common) for one, places in zip(dictionaries, codes, strict=True)}


def _recoded(key: Key, codes: _Codes) -> Key:
    if not codes or not isinstance(key, EncodedVector):
        return key
    places, common = codes[id(key.dictionary.values)]
    return EncodedVector(take(places, key.ids), common, None, key.nulls)
