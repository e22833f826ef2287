"""Writes docs/reference from the code itself: functions, error codes, config keys, REST routes, rights, commands.

Run it after changing any of these: `python tools/gen_reference.py`. `tests/test_docs.py` fails while a file is out of date.
"""

import dataclasses
import importlib
import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
NOTICE = "<!-- Written by tools/gen_reference.py from the code. Do not edit: run `python tools/gen_reference.py`. -->"


def main() -> None:
    """Write every file of the reference."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in generate().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path, text in json_schemas().items():
        path.write_text(text, encoding="utf-8")


def generate() -> dict[str, str]:
    """Return file name -> text of the whole reference."""
    makers: dict[str, Callable[[], Iterable[str]]] = {
        "functions.md": _functions,
        "errors.md": _errors,
        "config.md": _config,
        "rest.md": _rest,
        "rights.md": _rights,
        "cli.md": _commands,
    }
    return {name: "\n".join([NOTICE, *make(), ""]) for name, make in makers.items()}


def json_schemas() -> dict[Path, str]:
    """Return path -> text of the JSON Schemas."""
    from gamay.ingest.json_schemas import DOCUMENTS, FOLDER
    from gamay.model.json_schema import json_schema
    from gamay.roles.json_schema import role_config_schema

    made = {name: json_schema(name, cls) for name, cls in DOCUMENTS.items()} | {"role-config": role_config_schema()}
    return {FOLDER / f"{name}.json": f"{json.dumps(schema, indent=1)}\n" for name, schema in made.items()}


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(header)
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |"
    yield ""


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


# -- functions


def _scalar_modules() -> tuple[str, ...]:
    from gamay.functions import scalar
    from gamay.functions.scalar import common, extended

    return (*scalar._FAMILIES, *common._FAMILIES, *extended._FAMILIES)


def _functions() -> Iterator[str]:
    from gamay.functions import registry

    registry.function_names()
    names = registry._display_names
    yield from (
        "# Functions",
        "",
        "Names are matched without regard to case and underscores: `DATE_TRUNC`, `dateTrunc` and `datetrunc` are one",
        "function. Operators are functions, too: `a + b` is `plus(a, b)`, `a IN (1, 2)` is `in(a, 1, 2)`.",
        "Arguments in brackets may be left out; `...` repeats the last one. See [SQL](../guide/sql.md) for what they mean.",
        "",
        "## Aggregates",
        "",
        "Names in `MV` take multi-value columns; so do the plain ones. `percentile95(x)` stands for `percentile(x, 95)`,",
        "and likewise for the other percentiles.",
        "",
    )
    aggregates = "gamay.functions.aggregate."
    for full in sorted({e.factory.__module__ for e in registry._aggregates.values()}):
        if not full.startswith(aggregates):
            continue  # a user's own
        yield from (f"{_first_paragraph(importlib.import_module(full).__doc__)}", "")
        known = sorted(names[k] for k, e in registry._aggregates.items() if e.factory.__module__ == full)
        yield from (", ".join(f"`{name}`" for name in known), "")
    for module in _scalar_modules():
        full = f"gamay.functions.scalar.{module}"
        rows = list(_scalar_rows(full))
        if not rows:
            continue
        yield from (f"## {module.replace('_', ' ').capitalize()}", "")
        yield from (_first_paragraph(importlib.import_module(full).__doc__), "")
        yield from _table(("function", "also", "note"), rows)


def _scalar_rows(module: str) -> Iterator[tuple[str, str, str]]:
    from gamay.functions import registry

    spellings: dict[int, list[str]] = {}
    functions = {id(function): function for function in registry._scalars.values()}
    for key, function in registry._scalars.items():
        spellings.setdefault(id(function), []).append(registry._display_names[key])
    for ident, function in sorted(functions.items(), key=lambda item: item[1].name.lower()):
        if _module_of(function) != module or any("(" in name for name in spellings[ident]):  # which no query can name
            continue
        body = _body(function.compute)
        others = [f"`{name}`" for name in spellings[ident] if name != function.name]
        note = _first_paragraph(body.__doc__) if inspect.isfunction(body) and body is not function.compute else ""
        yield f"`{function.name}({_arguments(function, body)})`", ", ".join(others), note


def _body(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the decorated function, over which the registered one closes."""
    while inspect.isfunction(compute) and "body" in (held := inspect.getclosurevars(compute).nonlocals):
        compute = held["body"]
    return compute


def _module_of(function: Any) -> str:
    """Return the module that registers a function: that of its body, or, for a NumPy function, the one that names it."""
    prefix = "gamay.functions.scalar."
    module: str = getattr(_body(function.compute), "__module__", "") or ""
    if module.startswith(prefix):
        return module
    named = (prefix + m for m in _scalar_modules())
    # A function of a user's own has none of these modules and is no part of the reference.
    return next((m for m in named if f'"{function.name}"' in inspect.getsource(importlib.import_module(m))), "")


def _arguments(function: Any, body: Callable[..., Any]) -> str:
    """Return the arguments by the names that the body gives them, or by count where it takes them as a list."""
    least, most = function.min_args, function.max_args
    named: list[str] = []
    if body is not function.compute and inspect.isfunction(body):
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [p.name.rstrip("_") for p in inspect.signature(body).parameters.values() if p.kind in kinds]
    count = least if most is None else most
    if len(named) != count:
        named = [chr(ord("a") + i) for i in range(count)]
    shown = [name if i < least else f"[{name}]" for i, name in enumerate(named)]
    return ", ".join([*shown, *(["..."] if most is None else [])])


# -- error codes


def _errors() -> Iterator[str]:
    from gamay.base.errors import ErrorCode

    yield from (
        "# Error codes of queries",
        "",
        "A response carries `exceptions: [{errorCode, message}]`, its message beginning with the name. The HTTP status is",
        "200 all the same, unless the request has the header `Pinot-Use-Http-Status-For-Errors: true`. Some of these codes",
        "can only come from parts of a larger cluster. See [SQL](../guide/sql.md#errors) for examples.",
        "",
    )
    yield from _table(
        ("code", "name", "HTTP status"), ((str(c.code), f"`{c.label}`", str(c.http_status)) for c in ErrorCode)
    )


# -- config keys


def _config() -> Iterator[str]:
    from gamay.ingest.job.spec import JobSpec
    from gamay.model.cluster_settings import CLUSTER_SETTINGS
    from gamay.model.schema import field_spec, schema
    from gamay.model.table.table_config import TableConfig

    yield from (
        "# Keys of schemas, table configs, job specs and the cluster",
        "",
        "All keys that are read. Others are reported back as `unrecognizedProperties` (schemas, table configs) or refused",
        "(job specs). Many keys of table configs are stored for parts of Gamay that are still to come;",
        "[Tables](../guide/tables.md) says which ones act today.",
        "",
        "## Schema",
        "",
    )
    yield from _section_table(schema.SchemaKeys)
    yield from ("### Entries of dimensionFieldSpecs, metricFieldSpecs, dateTimeFieldSpecs, complexFieldSpecs", "")
    yield from (
        "`format`, `granularity` and `sampleValue` belong to `dateTimeFieldSpecs`. Those of `complexFieldSpecs` have",
    )
    yield from ("`childFieldSpecs`, too: an object of such entries for `key` and `value`.", "")
    yield from _section_table(field_spec._DateTimeSpecKeys)
    yield from ("## Table config", "")
    yield from _document(TableConfig)
    yield from ("## Job spec", "")
    yield from _document(JobSpec)
    yield from (
        "## Settings of the cluster",
        "",
        "Set with `POST /cluster/configs`, a JSON object of texts; they hold from the next query on. Others are kept",
        "and not read.",
        "",
    )
    yield from _table(
        ("setting", "value", "default", "meaning"),
        ((f"`{s.name}`", s.accepted, f"`{s.default}`", s.meaning) for s in CLUSTER_SETTINGS),
    )
    yield from _without_effect()


def _without_effect() -> Iterator[str]:
    """Yield the section of keys that are accepted without effect, of all documents."""
    from gamay.ingest.job import spec
    from gamay.model.index.indexing import FieldConfig, IndexingConfig
    from gamay.model.rules import without_effect
    from gamay.model.rules.unused_index_settings import settings_of_column, settings_of_table
    from gamay.sql.options import option_values

    yield from (
        "## Without effect",
        "",
        "Accepted, because configs and queries are shared with clusters that act on them. Whoever sets one is told: in the",
        "`warnings` of the answer that stores a config, in the log of a job, or in the `warnings` of a query's answer. Keys",
        "that have an effect only beside others are told of in the same way.",
        "",
    )
    of_table = {
        **without_effect.NO_EFFECT,
        **{f"tableIndexConfig.{name}": why for name, (_, why) in settings_of_table(IndexingConfig()).items()},
        **{f"fieldConfigList: {name}": why for name, (_, why) in settings_of_column(FieldConfig("a")).items()},
    }
    yield from _table(("key of a table config", "why"), ((f"`{name}`", why) for name, why in sorted(of_table.items())))
    yield from _table(("key of a job spec", "why"), ((f"`{name}`", why) for name, why in sorted(spec.NO_EFFECT.items())))
    yield from ("Options of queries:", "", ", ".join(f"`{name}`" for name in sorted(option_values.NO_EFFECT)) + ".", "")


def _document(cls: type) -> Iterator[str]:
    """Yield the table of a document's own keys, then those of the sections below it, each once."""
    yield from _section_table(cls)
    pending, seen = [cls], {cls}
    while pending:
        for path, child in _children(pending.pop(0)):
            if child in seen:
                continue
            seen.add(child)
            pending.append(child)
            yield from (f"### {path}", "", _first_paragraph(child.__doc__), "")
            yield from _section_table(child)


def _children(cls: type) -> Iterator[tuple[str, type]]:
    from gamay.model.parse import keys_of

    hints = typing.get_type_hints(cls)
    for attribute, key in keys_of(cls).items():
        for child in _classes_in(hints[attribute]):
            yield key.name, child


def _classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        from gamay.model.parse import keys_of

        if keys_of(hint):
            yield hint
    for part in typing.get_args(hint):
        yield from _classes_in(part)


def _section_table(cls: type) -> Iterator[str]:
    from gamay.model.parse import keys_of

    hints = typing.get_type_hints(cls)
    defaults = {f.name: _default(f) for f in dataclasses.fields(cls)}
    rows = []
    for attribute, key in keys_of(cls).items():
        value = f"one of {', '.join(c)}" if (c := _choices(key.shape.form)) else _kind(hints[attribute])
        also = f"; older name {', '.join(f'`{a}`' for a in key.aliases)}" if key.aliases else ""
        rows.append((f"`{key.name}`", value + also, "required" if key.required else defaults[attribute]))
    yield from _table(("key", "value", "default"), rows)


def _default(field: "dataclasses.Field[Any]") -> str:
    value = field.default
    if value is dataclasses.MISSING or value is None or value in ((), "") or dataclasses.is_dataclass(value):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _choices(form: Any) -> tuple[str, ...]:
    """Return the accepted names of an enumerated value, or of the items of a list or map of such values."""
    if form.kind in ("list", "map"):
        return _choices(form.items[0])
    return tuple(form.names) if form.kind == "choice" else ()


_WORDS: Mapping[Any, str] = {
    str: "text", bool: "true or false", int: "whole number", float: "number", Any: "any JSON", Ellipsis: "",
}  # fmt: skip


def _kind(hint: Any) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(part) for part in parts if part is not type(None))
    if origin is tuple and (not parts or Ellipsis in parts):
        return f"list of {_plural(_kind(parts[0]))}" if parts else "list"
    if origin is not None and issubclass(origin, Mapping):
        return "object" if parts[1] is Any else f"object of {_plural(_kind(parts[1]))}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        from gamay.model.schema.default_null import COLUMN_TYPES

        members = COLUMN_TYPES if hint.__name__ == "DataType" else list(hint)
        return f"one of {', '.join(str(member.value) for member in members)}"
    return _WORDS.get(hint, "object")


def _plural(kind: str) -> str:
    first, _, rest = kind.partition(" of ")
    many = {"object": "objects", "text": "texts", "whole number": "whole numbers", "list": "lists"}.get(first, first)
    return f"{many} of {rest}" if rest else many


# -- REST


def _rest() -> Iterator[str]:
    from gamay.controller.api.app import create_app

    # the routes only ask for their services when they are called
    app = create_app(cast(Any, _Anything()))
    yield from (
        "# REST interface of the controller",
        "",
        "The same list with forms to try it out is at `/help` of a running controller. Errors are `{code, error}` with the",
        "HTTP status as code. [Operating a cluster](../operate/cluster.md) shows the common requests, and the routes of the",
        "broker and the server.",
        "",
    )
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for path, methods in app.openapi()["paths"].items():
        for method, route in methods.items():
            parameters = (_parameter(p) for p in route.get("parameters", []) if p["in"] == "query")
            row = (f"`{method.upper()} {path}`", route.get("summary", ""), ", ".join(parameters))
            groups.setdefault(route["tags"][0], []).append(row)
    for tag, rows in groups.items():
        yield from (f"## {tag}", "")
        yield from _table(("route", "what it does", "query parameters"), rows)


def _parameter(parameter: Mapping[str, Any]) -> str:
    default = parameter.get("schema", {}).get("default")
    if parameter.get("required"):
        return f"`{parameter['name']}` (required)"
    return f"`{parameter['name']}`" if default in (None, "") else f"`{parameter['name']}={str(default).lower()}`"


class _Anything:
    """A stand-in for services that no request will reach."""

    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self) -> Any:
        return _Anything()

    def __iter__(self) -> Iterator[str]:
        """Stand in for the controller's name, which becomes part of another one."""
        return iter(())

    def partition(self, _: str) -> tuple[str, str, str]:
        """Stand in for the controller's URL, of which the application takes the host."""
        return "", "", "localhost"


# -- command line


def _rights() -> Iterator[str]:
    yield "# Who may ask what"
    yield ""
    yield "What each route needs: the action, its level, and the tables that the sender must be allowed to use."
    yield "`-` is the cluster, whose changes take all tables; `listed` leaves out what may not be used; `found` are the"
    yield "tables that the request leads to. Others are arguments of the handler that name tables. Which roles have which"
    yield "levels: [security](../operate/security.md#rights)."
    for role, module in (
        ("Controller", "controller.api"),
        ("Broker", "broker.http"),
        ("Server", "server.http"),
        ("Minion", "minion"),
    ):
        rights = getattr(importlib.import_module(f"gamay.{module}.rights"), f"{role.upper()}_RIGHTS")
        shown = sorted(rights.items(), key=lambda entry: (entry[0][1], entry[0][0]))
        yield ""
        yield f"## {role}"
        yield ""
        rows = ((m, f"`{path}`", r.action, r.level.value, _tables_of(r)) for (m, path), r in shown)
        yield from _table(("Method", "Path", "Action", "Level", "Tables"), rows)


def _tables_of(right: Any) -> str:
    return ", ".join(f"`{'.'.join(path)}`" for path in right.arguments) or f"`{right.scope.value}`"


def _commands() -> Iterator[str]:
    import typer

    from gamay.cli.app import app

    yield from ("# Command line", "", "Errors that a user can cause end with one sentence and status 1.", "")
    yield from _command(cast(Any, typer.main.get_command(app)), "gamay")


def _command(command: Any, path: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from _command(child, f"{path} {name}")
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([path, *(f"{p.name.upper()}{'...' if p.nargs == -1 else ''}" for p in arguments)])
    yield from (
        f"## {path}",
        "",
        _first_paragraph(command.help),
        "",
        "```",
        usage + (" [OPTIONS]" if options else ""),
        "```",
        "",
    )
    rows = [(f"`{p.name.upper()}`", _plain(p.help), "required" if p.required else "") for p in arguments]
    rows += [(f"`{p.opts[0]}`", _plain(p.help), _option_default(p)) for p in options]
    if rows:
        yield from _table(("argument or option", "meaning", "default"), rows)


def _plain(text: str | None) -> str:
    """Return a text without what Markdown interprets as links."""
    return (text or "").replace("[", r"\[")


def _option_default(option: Any) -> str:
    if option.required:
        return "required"
    return "" if option.default in (None, False) else f"`{option.default}`"


if __name__ == "__main__":
    main()
