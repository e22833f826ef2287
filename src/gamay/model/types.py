"""The data types of columns and results, and the roles that a column can play."""

from enum import Enum


class DataType(Enum):
    """Data types under their wire names; `X_ARRAY` on the wire is a multi-value column of X."""

    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    BIG_DECIMAL = "BIG_DECIMAL"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"
    STRING = "STRING"
    JSON = "JSON"
    BYTES = "BYTES"
    UUID = "UUID"
    UNKNOWN = "UNKNOWN"  # the type of NULL; query time only
    OBJECT = "OBJECT"  # an opaque intermediate; query time only
    MAP = "MAP"  # the text of a JSON object, keys in order; complex columns only

    # the hash of `object`, computed without a call of Python code: small queries look up types a dozen times
    __hash__ = object.__hash__

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic is defined on it; BOOLEAN and TIMESTAMP do not count."""
        return self in _NUMERIC

    @property
    def is_fixed_width(self) -> bool:
        """Whether its values live in a NumPy array; the others live in Arrow arrays or, for BIG_DECIMAL, objects."""
        return self in _FIXED_WIDTH

    @property
    def is_text(self) -> bool:
        """Whether its values are UTF-8 strings."""
        return self in (DataType.STRING, DataType.JSON, DataType.MAP)

    @property
    def is_binary(self) -> bool:
        """Whether its values are byte strings."""
        return self in (DataType.BYTES, DataType.UUID)


_NUMERIC = frozenset({DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL})
_FIXED_WIDTH = frozenset(
    {DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.TIMESTAMP}
)


class FieldRole(Enum):
    """What a column is for; decides the allowed types and the default null value."""

    DIMENSION = "DIMENSION"
    METRIC = "METRIC"
    TIME = "TIME"
    DATE_TIME = "DATE_TIME"
    COMPLEX = "COMPLEX"
