"""Builder of external views, which merges the servers' current states whenever one of them changes.

The same thread updates `brokerResource` by the tenants of tables and the tags of brokers.
"""

import logging
import threading
from collections.abc import Callable, Iterable

from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.registry import Registry
from gamay.cluster.records.views import fold
from gamay.cluster.store import paths
from gamay.cluster.store.store import FencedError, StoreUnavailableError

_log = logging.getLogger(__name__)


class ViewBuilder:
    """Builder of external views, on its own thread between `start` and `stop`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._brokers = BrokerResource(registry)
        self._changed = threading.Condition()
        self._pending: set[str] = set()
        self._everything = False
        self._tags_changed = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._cancels: list[Callable[[], None]] = []

    def start(self) -> None:
        """Rebuild all views, then follow changes; also allowed after a `stop`."""
        self._stopping = False
        self._cancels = [
            self._registry.store.watch(paths.INSTANCES, self._on_change),
            self._registry.store.watch(paths.LIVE_INSTANCES, self._on_change),
            self._registry.store.watch(paths.IDEAL_STATES, self._on_change),
            self._registry.store.watch(paths.TABLE_CONFIGS, self._on_broker_change),
            self._registry.store.watch(paths.PARTICIPANT_CONFIGS, self._on_broker_change),
        ]
        self._assign_brokers()
        self._rebuild_each([paths.BROKER_RESOURCE, *self._registry.resources_with_state()])
        self._thread = threading.Thread(target=self._run, name="view-builder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following changes."""
        for cancel in self._cancels:
            cancel()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _on_change(self, path: str) -> None:
        resource = path.rpartition("/")[2]
        everything = path.startswith(paths.LIVE_INSTANCES) or path in (paths.INSTANCES, paths.IDEAL_STATES)
        if not everything and "/CURRENTSTATES/" not in path and not path.startswith(paths.IDEAL_STATES):
            return
        with self._changed:
            if everything:
                self._everything = True
            else:
                self._pending.add(resource)
            self._changed.notify_all()

    def _on_broker_change(self, _: str) -> None:
        with self._changed:
            self._pending.add(paths.BROKER_RESOURCE)
            self._tags_changed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._everything or self._stopping)
                if self._stopping:
                    return
                pending, self._pending = self._pending, set()
                everything, self._everything = self._everything, False
                tags_changed, self._tags_changed = self._tags_changed, False
            if tags_changed or everything:
                self._assign_brokers()
            try:
                if everything:
                    pending |= {paths.BROKER_RESOURCE, *self._registry.resources_with_state()}
            except StoreUnavailableError as error:
                _stand_still(error)
            if not self._rebuild_each(pending):
                return

    def _assign_brokers(self) -> None:
        """Update the ideal state of `brokerResource`; a periodic task retries after a failure."""
        try:
            self._brokers.rebuild()
        except FencedError:
            _log.warning("another controller leads the cluster now; it assigns brokers to tables")
        except StoreUnavailableError as error:
            _stand_still(error)
        except Exception:  # noqa: BLE001 - one broken record must not freeze the views of all tables
            _log.exception("cannot assign brokers to tables")

    def _rebuild_each(self, resources: Iterable[str]) -> bool:
        """Rebuild views; return whether this controller still leads the cluster."""
        for resource in sorted(resources):
            try:
                self._rebuild(resource)
            except FencedError:
                _log.warning("another controller leads the cluster now; it builds the external views")
                return False
            except StoreUnavailableError as error:
                _stand_still(error)
                return True
            except Exception:  # noqa: BLE001 - one table's broken record must not freeze the views of the others
                _log.exception("cannot build the external view of %s", resource)
        return True

    def _rebuild(self, resource: str) -> None:
        if resource == paths.BROKER_RESOURCE:
            self._brokers.publish()
            return
        if self._registry.get_ideal_state(resource) is None:
            self._registry.delete_external_view(resource)
            return
        live = self._registry.live_instance_ids()
        reports = {instance: self._registry.get_current_state(instance, resource) for instance in live}
        self._registry.put_external_view(fold(resource, reports))


def _stand_still(error: StoreUnavailableError) -> None:
    # the store reports that everything may have changed when it is back
    _log.warning("the external views are not updated: %s", error)
