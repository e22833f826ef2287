"""A crash between any two steps: the next start completes or undoes the change, and acknowledged segments remain."""

from collections.abc import Callable
from typing import Any

import pytest

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.controller.segments.segments import PushOptions

# What each operation does to the records, in order; dying before any of them is a crash at that moment.
STEPS = ("create", "set", "delete", "put", "discard")


class Crash(BaseException):
    """The death of the process: no handler runs after it, except those that a test cannot prevent."""


class DyingStore:
    """Counts changes of the store and of the deep store, and dies at the n-th."""

    def __init__(self, controller: Any, die_at: int) -> None:
        self.count = 0
        self.die_at = die_at
        self.dead = False
        self._wrap(controller.store, "create", "set", "delete")
        deep_store = type(controller.context.deep_store)
        self._undo = {name: getattr(deep_store, name) for name in ("put", "discard")}
        self._deep_store = deep_store
        for name, original in self._undo.items():
            setattr(deep_store, name, self._counted(original))

    def _wrap(self, target: Any, *names: str) -> None:
        for name in names:
            setattr(target, name, self._counted(getattr(target, name)))

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.dead or self.count == self.die_at:
                self.dead = True
                raise Crash
            return original(*args, **kwargs)

        return call

    def restore(self) -> None:
        for name, original in self._undo.items():
            setattr(self._deep_store, name, original)


def push_new(c: Any) -> None:
    segment = c.built("new")
    c.segments.push("t_OFFLINE", segment, segment.folder, PushOptions())


def push_refresh(c: Any) -> None:
    segment = c.built("kept_0")
    c.segments.push("t_OFFLINE", segment, segment.folder, PushOptions())


def append_many(c: Any) -> None:
    c.write("new_0", "new_1", "new_2")


def delete_one(c: Any) -> None:
    c.segments.delete("t_OFFLINE", ["kept_0"], "0d")


def delete_table(c: Any) -> None:
    c.tables.delete("t_OFFLINE", "0d")


def consistent(c: Any) -> set[str]:
    """Check that records, ideal state and copies name the same segments, and return them."""
    assigned = set(c.registry.must_get_ideal_state("t_OFFLINE").states)
    assert set(c.registry.segment_names("t_OFFLINE")) == assigned
    assert set(c.copies()) == assigned
    for record in c.registry.segments("t_OFFLINE"):
        assert c.context.deep_store.path_of(record.download_url).exists()
    assert list((c.folder / "tmp").iterdir()) == []
    return assigned


@pytest.mark.parametrize(
    ("operation", "outcomes"),
    [
        (push_new, [{"kept_0", "kept_1"}, {"kept_0", "kept_1", "new"}]),
        (push_refresh, [{"kept_0", "kept_1"}]),
        (append_many, [{"kept_0", "kept_1"}, {"kept_0", "kept_1", "new_0", "new_1", "new_2"}]),
        (delete_one, [{"kept_0", "kept_1"}, {"kept_1"}]),
        (delete_table, [{"kept_0", "kept_1"}, None]),
    ],
)
def test_a_crash_at_any_step(
    open_controller: Callable[[], Any], operation: Callable[[Any], None], outcomes: list[set[str] | None]
) -> None:
    die_at = 0
    finished = False
    while not finished:
        die_at += 1
        c = open_controller()
        c.repair()
        if "t_OFFLINE" in c.tables.names():
            c.tables.delete("t_OFFLINE", "0d")
        c.create()
        c.write("kept_0", "kept_1")
        dying = DyingStore(c, die_at)
        try:
            operation(c)
            finished = True
        except Crash:
            pass
        finally:
            dying.restore()
        restarted = open_controller()
        restarted.repair()
        exists = "t_OFFLINE" in restarted.tables.names()
        outcome = consistent(restarted) if exists else None
        assert outcome in outcomes, die_at
        if not exists:
            assert restarted.registry.resources_with_state() == []
            assert restarted.copies() == []
        if finished:
            assert outcome == outcomes[-1]
        report = restarted.repair()
        assert (report.unacknowledged_segments, report.dangling_assignments, report.untracked_copies) == (0, 0, 0)
    assert die_at > 3


def test_an_append_that_clashes_adds_nothing(controller: Any) -> None:
    controller.write("a", "b")
    with pytest.raises(ConflictError):
        controller.write("c", "b")
    assert consistent(controller) == {"a", "b"}


def test_a_lost_metadata_store_does_not_cost_the_segments(open_controller: Callable[[], Any]) -> None:
    c = open_controller()
    c.repair()
    c.create()
    c.write("a", "b")
    c.close()
    for path in c.folder.glob("metadata.db*"):
        path.unlink()
    again = open_controller()
    again.repair()
    assert again.copies() == ["a", "b"]


def test_deleted_segments_are_kept_for_a_while(controller: Any) -> None:
    controller.write("a", "b")
    controller.segments.delete("t_OFFLINE", ["a"], "12h")
    controller.segments.delete("t_OFFLINE", ["b"], "0d")
    aside = controller.folder / "deepstore" / "Deleted_Segments" / "t_OFFLINE"
    assert [p.name.partition("__")[0] for p in aside.iterdir()] == ["a"]
    controller.clock.advance(11 * 3600)
    controller.repair()
    assert len(list(aside.iterdir())) == 1
    controller.clock.advance(2 * 3600)
    controller.repair()
    assert list(aside.iterdir()) == []
    with pytest.raises(InvalidConfigError):
        controller.segments.delete("t_OFFLINE", [], "soon")


def test_replacements(controller: Any) -> None:
    controller.write("a", "b")
    manager = controller.replacements
    entry = manager.start("t_OFFLINE", ["a"], ["x"])
    for bad in ([["a"], ["y"]], [["b"], ["x"]], [["nope"], ["y"]], [["b"], ["a"]], [[], []]):
        with pytest.raises(Exception, match=r"being replaced|do not exist|already exist|both empty"):
            manager.start("t_OFFLINE", *bad)
    with pytest.raises(Exception, match="not pushed"):
        manager.end("t_OFFLINE", entry, [], 0, lambda s: None)
    with pytest.raises(Exception, match="in progress"):
        manager.revert("t_OFFLINE", entry)
    controller.write("x")
    second = manager.start("t_OFFLINE", ["a"], ["y"], force=True)
    assert controller.segments.names("t_OFFLINE") == ["a", "b"]  # the archives pushed for the first one belong to no segment
    assert controller.registry.get_lineage("t_OFFLINE").hidden_segments() == {"x", "y"}
    manager.revert("t_OFFLINE", second, force=True)
    with pytest.raises(Exception, match="was reverted"):
        manager.end("t_OFFLINE", second, [], 0, lambda s: None)
    assert set(manager.document("t_OFFLINE")["lineageEntries"]) == {entry, second}
