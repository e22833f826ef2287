"""Which cuboids a star-tree stores: for random sizes, each query finds one, and none is useless."""

from hypothesis import given
from hypothesis import strategies as st

from gamay.query.startree.lattice import LatticeLimits, candidates, grow


class Sizes:
    """Sizes of cuboids over columns of given cardinalities: at most their product, at most the rows."""

    def __init__(self, cardinalities: list[int], num_docs: int) -> None:
        self.cardinalities = cardinalities
        self.num_docs = num_docs
        self.computed: dict[int, int | None] = {}
        self.held: dict[int, int] = {}
        self.most_held = 0

    def of(self, kept: int) -> int:
        size = 1
        for place, cardinality in enumerate(self.cardinalities):
            size *= cardinality if kept >> place & 1 else 1
        return min(size, self.num_docs)

    def reduce(self, parent: int | None, kept: int, most: int) -> int | None:
        assert kept not in self.computed
        assert parent is None or (parent & kept == kept and parent in self.held)
        self.computed[kept] = size if (size := self.of(kept)) <= most else None
        if size <= most:
            self.most_held = max(self.most_held, sum(self.held.values()))
            self.held[kept] = 8 * size
        return self.computed[kept]

    def forget(self, kept: int) -> None:
        del self.held[kept]


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=6),
    st.integers(1, 100_000),
    st.integers(1, 1000),
    st.integers(0, 1 << 20),
    st.data(),
)
def test_cuboids_are_worth_their_room(
    cardinalities: list[int], num_docs: int, leaf_records: int, max_bytes: int, data: st.DataObject
) -> None:
    sizes = Sizes(cardinalities, num_docs)
    unstarred = data.draw(st.integers(0, (1 << len(cardinalities)) - 1))
    limits = LatticeLimits(leaf_records, num_docs, max_bytes)
    chosen = grow(len(cardinalities), unstarred, limits, sizes.reduce, lambda kept: 8 * sizes.of(kept), sizes.forget)
    assert sizes.most_held <= 4 * max_bytes  # when the next one is computed
    assert sizes.held.keys() >= set(chosen)
    assert len(set(chosen)) == len(chosen)
    assert sum(8 * sizes.of(kept) for kept in chosen) <= max_bytes
    for kept in chosen:
        assert kept & unstarred == unstarred
        assert sizes.of(kept) <= num_docs // 2
    if max_bytes < 8 * sum(size for size in sizes.computed.values() if size is not None):
        return
    for asked in candidates(len(cardinalities), unstarred):
        smallest = min((sizes.of(kept) for kept in chosen if kept & asked == asked), default=num_docs)
        assert smallest <= max(leaf_records, 2 * sizes.of(asked) + 1)


def test_of_many_dimensions_small_sets_are_looked_at() -> None:
    found = list(candidates(30, 0))
    assert len(found) <= 2048
    assert {1 << place for place in range(30)} <= set(found)
    assert 0 in found
