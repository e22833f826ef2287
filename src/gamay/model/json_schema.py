"""JSON Schemas of the documents that users write, generated from the declarations that parse them.

A document that is read without problems and unknown keys satisfies its schema, and a document that violates the schema is
refused, or has an unknown key. Rules between keys are not included: `PUT /tables/validate` and similar calls check them.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gamay.model.batch_settings import BATCH_KEYS
from gamay.model.parse import Form, Key, keys_of
from gamay.model.task_settings import COMMON_KEYS, known_task_keys, task_types

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT = {"type": ["string", "number", "boolean"]}
_TRUE_OR_FALSE = r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])\s*$"
_INTEGER = r"^\s*[+-]?[0-9]+\s*$"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
FORMS: Mapping[str, dict[str, Any]] = {
    "any": {},
    "text": _TEXT,
    "string": {"type": "string"},
    "flag": {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": _TRUE_OR_FALSE}]},
    "integer": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": _INTEGER}]},
    "number": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": _NUMBER}]},
}
_UNSET: tuple[dict[str, Any], ...] = ({"const": ""}, {"type": "null"})
_WORDS = re.compile(r"\s+")


def json_schema(name: str, cls: type) -> dict[str, Any]:
    """Return the schema, of draft 2020-12, of the document that a section declares. name: of the schema, its `$id`."""
    sections: dict[str, dict[str, Any]] = {}
    root = _section(cls, sections)
    _name_free_keys(sections)
    return {"$schema": DIALECT, "$id": f"gamay:{name}", "title": name, **root, "$defs": sections}


def _name_free_keys(sections: dict[str, dict[str, Any]]) -> None:
    """Name known keys of maps with free keys, so that editors can suggest them: of tasks, and of folders of files."""
    if "TaskConfig" in sections:
        tasks = sections["TaskConfig"]["properties"]["taskTypeConfigsMap"]["anyOf"][0]
        of_type, *unset = tasks["additionalProperties"]["anyOf"]
        tasks["properties"] = {
            name: {"anyOf": [_with_keys(of_type, (*COMMON_KEYS, *known_task_keys(name)), sections), *unset]}
            for name in task_types()
        }
    if "BatchIngestionConfig" in sections:
        maps = sections["BatchIngestionConfig"]["properties"]["batchConfigMaps"]["anyOf"][0]
        one, *unset = maps["items"]["anyOf"]
        maps["items"]["anyOf"] = [_with_keys(one, BATCH_KEYS, sections), *unset]


def _with_keys(form: Mapping[str, Any], names: Sequence[str], sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a form of free keys with some named ones, in which `*` matches a name."""
    sections["Setting"] = form["additionalProperties"]
    setting = {"$ref": "#/$defs/Setting"}
    named = {**form, "properties": {name: setting for name in names if "*" not in name}}
    patterns = {f"^{'.+'.join(map(re.escape, name.split('*')))}$": setting for name in names if "*" in name}
    return {**named, "patternProperties": patterns} if patterns else named


def _form(form: Form, sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if form.kind in FORMS:
        return dict(FORMS[form.kind])
    if form.kind == "choice":
        return {"anyOf": [{"enum": list(form.names)}, {"type": "string", "pattern": _in_any_case(form.names)}]}
    if form.kind == "either":
        return {"anyOf": [_form(one, sections) for one in form.items]}
    if form.kind == "section":
        assert form.cls is not None
        name = form.cls.__name__.strip("_") + "".join(f"Without{left_out.capitalize()}" for left_out in form.names)
        if name not in sections:
            sections[name] = {}  # a section may contain itself
            sections[name] = _section(form.cls, sections, form.names)
        return {"$ref": f"#/$defs/{name}"}
    (item,) = form.items
    if form.kind == "list":
        return {"type": "array", "items": {"anyOf": [_form(item, sections), _UNSET[0]]}}
    return {"type": "object", "additionalProperties": {"anyOf": [_form(item, sections), *_UNSET]}}


def _section(cls: type, sections: dict[str, dict[str, Any]], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    keys = keys_of(cls).values()
    properties = {spelling: _property(key, sections) for key in keys for spelling in (key.name, *key.aliases)}
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if (about := _about(cls)) is not None:
        found["description"] = about
    required = [key for key in keys if key.required and key.name not in optional]
    if plain := [key.name for key in required if not key.aliases]:
        found["required"] = plain
    if others := [key for key in required if key.aliases]:
        found["allOf"] = [{"anyOf": [{"required": [name]} for name in (key.name, *key.aliases)]} for key in others]
    return found


def _property(key: Key, sections: dict[str, dict[str, Any]]) -> dict[str, Any]:
    form = _form(key.shape.form, sections)
    if not form:
        return form
    if not key.required:
        return {"anyOf": [form, *_UNSET]}
    return {"allOf": [form, {"not": _UNSET[0]}]} if key.shape.form.kind == "text" else form


def _about(cls: type) -> str | None:
    text = cls.__doc__
    if text is None or text.startswith(f"{cls.__name__}("):  # generated by dataclasses
        return None
    return _WORDS.sub(" ", inspect.cleandoc(text).partition("\n\n")[0])


def _in_any_case(names: tuple[str, ...]) -> str:
    """Return the pattern of names in any case, as JSON Schema's patterns have no such flag."""
    folded: Callable[[str], str] = lambda c: f"[{c.upper()}{c.lower()}]" if c.isalpha() else re.escape(c)  # noqa: E731
    return rf"^\s*({'|'.join(''.join(map(folded, name)) for name in names)})\s*$"
