"""The documentation: the reference matches the code, links are valid, and examples work."""

import ast
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
import yaml

import gamay
from gamay.base.properties import parse_properties
from gamay.functions.registry import canonical_name
from gamay.ingest.job.spec import JobSpec, job_spec_from_properties
from gamay.model.rules.validation import validate_schema, validate_table_config
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GUIDES = sorted(
    [DOCS / "upsert.md", *(path for kind in ("guide", "operate", "tutorials") for path in (DOCS / kind).glob("*.md"))]
)
SKIPPED_FOLDERS = {"build", "node_modules", "dist"}
MARKDOWN = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part in SKIPPED_FOLDERS for part in path.relative_to(ROOT).parts)
)


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))


def anchors(path: Path) -> set[str]:
    """Return the fragments that the headings of a document have on the usual hosts."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"(?ms)^```.*?^```", "", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_reference", ROOT / "tools" / "gen_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_up_to_date() -> None:
    made = load_generator().generate()
    stored = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")}
    assert made.keys() == stored.keys()
    outdated = [name for name in made if made[name] != stored[name]]
    assert not outdated, "run: python tools/gen_reference.py"


def test_the_json_schemas_are_up_to_date() -> None:
    for path, text in load_generator().json_schemas().items():
        assert path.read_text(encoding="utf-8") == text, "run: python tools/gen_reference.py"


def test_the_site_shows_every_page_once() -> None:
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        assert isinstance(inner, Iterable)
        return [page for one in inner for page in pages(one)]

    shown = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    written = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(shown) == sorted([*written, "architecture.md"])  # of the project's root: tools/site_architecture.py


def test_every_function_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "functions.md").read_text().lower()
    shown = {canonical_name(name) for name in re.findall(r"`(\$?\w+)[`(]", text)}
    # in a process of its own: other tests add functions to this one
    code = "from gamay.functions.registry import function_names; print(*function_names())"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert len(names) > 400
    assert not [name for name in names if canonical_name(name) not in shown]


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda p: str(p.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        file = (path.parent / unquote(name)).resolve() if name else path
        if not file.exists() or (fragment and file.suffix == ".md" and fragment not in anchors(file)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("name", ["guide/python.md", "guide/client.md", "tutorials/first-hour.md"])
def test_the_guides_of_python_run(tmp_path: Path, name: str) -> None:
    script = tmp_path / "guide.py"
    script.write_text("\n".join(blocks(DOCS / name, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.name)
def test_what_python_snippets_import_exists(path: Path) -> None:
    for text in blocks(path, "python"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gamay"):
                module = importlib.import_module(node.module or "")
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing


def test_the_schemas_and_table_configs_shown_are_valid() -> None:
    found = 0
    schemas = {}
    for path in GUIDES:
        for text in blocks(path, "json"):
            document = json.loads(text)
            if "schemaName" in document:
                schema_read = Schema.from_json(document)
                assert not schema_read.unrecognized
                validate_schema(schema_read.value)
                if path.stem == "tables" or schema_read.value.name not in schemas:
                    schemas[schema_read.value.name] = schema_read.value
    for path in GUIDES:
        for text in blocks(path, "json"):
            document = json.loads(text)
            if "tableName" in document:
                config = TableConfig.from_json(document)
                assert not config.unrecognized
                validate_table_config(config.value, schemas[config.value.raw_name])
                found += 1
    assert found


def test_the_job_specs_shown_are_valid() -> None:
    path = DOCS / "guide" / "batch-ingestion.md"
    assert [JobSpec.from_document(yaml.safe_load(text)).job_type for text in blocks(path, "yaml")]
    assert [job_spec_from_properties(parse_properties(text)).job_type for text in blocks(path, "properties")]


def test_the_queries_shown_are_answered(tmp_path: Path) -> None:
    path = DOCS / "guide" / "sql.md"
    names: dict[str, object] = {}
    with gamay.connect(tmp_path / "data") as db:
        exec("\n".join(blocks(path, "python")), {"db": db}, names)
        queries = [query for text in blocks(path, "sql") for query in re.split(r"\n\s*\n", text.strip())]
        assert queries
        for query in queries:
            assert db.sql(query).columns, query
