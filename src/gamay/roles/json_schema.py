"""JSON Schema of the properties files of roles, read as one object of dotted keys."""

import re
from typing import Any

from gamay.cluster.records.records import Role
from gamay.model.json_schema import DIALECT, FORMS
from gamay.roles.settings import key_families, key_forms


def role_config_schema() -> dict[str, Any]:
    """Return the schema: the keys of all roles, since one file may serve a process with several. Values may be empty."""
    of_roles: dict[str, list[str]] = {}
    forms: dict[str, str] = {}
    families: dict[str, None] = {}
    for role in (Role.CONTROLLER, Role.BROKER, Role.SERVER, Role.MINION):
        for key, form in key_forms(role).items():
            of_roles.setdefault(key, []).append(role.value.lower())
            forms[key] = form
        families |= dict.fromkeys(key_families(role))
    return {
        "$schema": DIALECT,
        "$id": "gamay:role-config",
        "title": "role-config",
        "type": "object",
        "properties": {
            key: {"description": f"Of {', '.join(roles)}.", "anyOf": [FORMS[forms[key]], {"const": ""}]}
            for key, roles in sorted(of_roles.items())
        },
        "patternProperties": {f"^({'|'.join(map(re.escape, families))})": FORMS["text"]},
        "additionalProperties": False,
    }
