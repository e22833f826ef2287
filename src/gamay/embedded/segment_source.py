"""Where a server gets segments from: the deep store's folder where it reaches that, else any controller."""

import itertools
from pathlib import Path
from urllib.parse import quote

from gamay.base.errors import NotFoundError
from gamay.cluster.records import Instance, Role
from gamay.cluster.registry import Registry
from gamay.controller.deep_store import SCHEME, DeepStore


class SegmentSource:
    """Turns download URLs into ones that this process can read. deep_store: the folder, None when it is out of reach."""

    def __init__(self, registry: Registry, deep_store: Path | None) -> None:
        self._registry = registry
        self._deep_store = None if deep_store is None else DeepStore(deep_store.expanduser().absolute())
        self._turn = itertools.count()

    def locate(self, url: str) -> str:
        """Return a path or URL; each time from another controller. Raises NotFoundError when none is alive."""
        if not DeepStore.owns(url):
            return url
        if self._deep_store is not None:
            try:
                return str(self._deep_store.path_of(url))
            except NotFoundError:
                pass  # not mounted here yet, or a copy of a moment ago: a controller has it
        controllers = self._controllers()
        if not controllers:
            raise NotFoundError(f"no controller is alive to fetch '{url}' from")
        chosen = controllers[next(self._turn) % len(controllers)]
        table, _, name = url.removeprefix(SCHEME).partition("/")
        segment = name.rpartition("__")[0]
        return f"http://{chosen.host}:{chosen.port}/segments/{quote(table)}/{quote(segment, safe='')}"

    def _controllers(self) -> list[Instance]:
        live = set(self._registry.live_instance_ids())
        return [i for i in self._registry.instances() if i.id in live and i.role is Role.CONTROLLER and i.enabled]
