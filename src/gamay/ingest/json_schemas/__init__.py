"""JSON Schemas of table configs, schemas, job specs and role configs, as files for editors.

`tools/gen_reference.py` writes the files from the declarations (`gamay.model.json_schema`, `gamay.roles.json_schema`);
controllers serve them at `/jsonSchemas`, `gamay admin json-schema` prints them.
"""

from collections.abc import Mapping
from pathlib import Path

from gamay.base.errors import NotFoundError, nearest
from gamay.ingest.job.spec import JobSpec
from gamay.model.schema.schema import SchemaKeys
from gamay.model.table.table_config import TableConfig

FOLDER = Path(__file__).parent
DOCUMENTS: Mapping[str, type] = {"table-config": TableConfig, "schema": SchemaKeys, "job-spec": JobSpec}
NAMES = (*DOCUMENTS, "role-config")


def schema_text(name: str) -> str:
    """Return a schema as JSON text. Raises NotFoundError."""
    if name not in NAMES:
        raise NotFoundError(f"there is no JSON Schema '{name}', but {', '.join(NAMES)}.{nearest(name, NAMES)}")
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")
