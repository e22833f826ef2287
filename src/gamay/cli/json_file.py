"""JSON documents that commands are given as files."""

import json
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises InvalidConfigError with the position of a syntax error."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidConfigError(f"{path} does not exist") from None
    except json.JSONDecodeError as error:
        raise InvalidConfigError(f"{path}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    if not isinstance(document, dict):
        raise InvalidConfigError(f"{path} holds a JSON {type(document).__name__}; expected an object")
    return document
