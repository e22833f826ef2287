"""`${name}` in job specs."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError, nearest

_PLACE = re.compile(r"(\\)?\$\{([^{}]*)\}")


def render(text: str, variables: Mapping[str, str]) -> str:
    r"""Replace `${name}`; `\${` stays as `${`, and so does the `${filePathPattern:\1}` of segment name templates.

    Raises InvalidConfigError for a name without a value.

    >>> render("in/${day}", {"day": "2024-05-01"})
    'in/2024-05-01'
    """

    def value(found: "re.Match[str]") -> str:
        if found[1] or found[2].startswith("filePathPattern:"):
            return f"${{{found[2]}}}"
        name = found[2].strip()
        if name not in variables:
            # known names are not listed, since they include the environment
            raise InvalidConfigError(
                f"the job spec uses ${{{name}}}, which has no value; give it as --value {name}=..., in the property file "
                f"or in the environment.{nearest(name, variables)}"
            )
        return variables[name]

    return _PLACE.sub(value, text)


def template_variables(
    values: Mapping[str, str], properties: Mapping[str, str], environment: Mapping[str, str], clock: Clock
) -> dict[str, str]:
    """Return the values of `${name}`: given values first, then the environment, then the property file.

    `today` and `yesterday` (UTC, yyyy-MM-dd) are predefined unless overridden.
    """
    today = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    dates = {"today": f"{today:%Y-%m-%d}", "yesterday": f"{today - timedelta(days=1):%Y-%m-%d}"}
    return {**dates, **properties, **environment, **values}
