"""A hook of hatchling: adds the kernels compiled by `tools.wheel` to the wheel; `gamay.kernels.prebuilt` loads them."""

import os
from pathlib import Path
from typing import Any

FOLDER = "GAMAY_WHEEL_KERNELS"
"""The variable that names the folder of compiled kernels, by family; without it the wheel has none."""


def get_build_hook() -> Any:
    """Return the class that hatchling makes a hook of."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class KernelsHook(BuildHookInterface[Any]):
        """A build hook that adds the folder."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            if (folder := os.environ.get(FOLDER)) is not None:
                build_data["force_include"][str(Path(folder).resolve(strict=True))] = "gamay/kernels/compiled"

    return KernelsHook
