"""A slow, obvious quantile digest: a tree of Python objects, built from values or from Java's serialised form."""

import struct

SIGN = 1 << 63


class Node:
    def __init__(
        self, bits: int, level: int, weight: float, left: "Node | None" = None, right: "Node | None" = None
    ) -> None:
        self.bits, self.level, self.weight = bits, level, weight
        self.left, self.right = left, right

    @property
    def upper(self) -> int:
        return (self.bits | ((1 << self.level) - 1)) - SIGN


def parse(data: bytes) -> tuple[float, int, int, Node | None]:
    """Return the maximal error, the smallest and largest value and the root; raises ValueError for a broken tree."""
    error, decay, landmark, low, high, count = struct.unpack_from(">ddqqqi", data)
    if decay or landmark or len(data) != 44 + 18 * count:
        raise ValueError("wrong header")
    stack: list[Node] = []
    for i in range(count):
        flags, level, bits, weight = struct.unpack_from(">BBqd", data, 44 + 18 * i)
        node = Node(bits % (1 << 64), level, weight)
        if flags & 2:
            node.right = stack.pop()
        if flags & 1:
            node.left = stack.pop()
        _check(node)
        stack.append(node)
    if len(stack) > 1:
        raise ValueError("several roots")
    return error, low, high, stack[0] if stack else None


def _check(node: Node) -> None:
    for child, branch in ((node.left, 0), (node.right, 1)):
        if child is None:
            continue
        inside = child.level < node.level and child.bits >> node.level == node.bits >> node.level
        if not inside or child.bits >> (node.level - 1) & 1 != branch:
            raise ValueError("a child is not within its parent")
    if node.weight == 0 and (node.left is None or node.right is None):
        raise ValueError("a node without weight does not branch")


def in_order(node: Node | None) -> list[Node]:
    """Return the nodes in post-order."""
    return [] if node is None else [*in_order(node.left), *in_order(node.right), node]


def build(values: list[int]) -> Node | None:
    """Return the tree of the values, without merging."""
    root = None
    for value in values:
        root = _insert(root, value + SIGN)
    return root


def _insert(node: Node | None, bits: int) -> Node:
    if node is None:
        return Node(bits, 0, 1.0)
    if bits >> node.level != node.bits >> node.level:
        level = (bits ^ node.bits).bit_length()
        leaf = Node(bits, 0, 1.0)
        left, right = (node, leaf) if bits > node.bits else (leaf, node)
        return Node(bits, level, 0.0, left, right)
    if node.level == 0:
        node.weight += 1
    elif bits >> (node.level - 1) & 1:
        node.right = _insert(node.right, bits)
    else:
        node.left = _insert(node.left, bits)
    return node


def compress(root: Node | None, max_error: float) -> Node | None:
    """Return the tree with light children merged into their parents."""
    if root is None:
        return None
    total = sum(node.weight for node in in_order(root))
    least = int(total / max(int((root.level + 1) / max_error), 1))
    _compress(root, least)
    return _removed(root) if root.weight == 0 else root


def _compress(node: Node, least: int) -> None:
    for child in (node.left, node.right):
        if child is not None:
            _compress(child, least)
    left = node.left.weight if node.left else 0.0
    right = node.right.weight if node.right else 0.0
    light = node.weight + left + right < least
    if node.left and (light or left == 0):
        node.weight += left
        node.left = _removed(node.left)
    if node.right and (light or right == 0):
        node.weight += right
        node.right = _removed(node.right)


def _removed(node: Node) -> Node | None:
    """Return a node's subtree after the removal of its weight."""
    node.weight = 0.0
    return node if node.left and node.right else node.left or node.right


def percentile(root: Node | None, p: float, high: int) -> int:
    nodes = in_order(root)
    total, passed = sum(node.weight for node in nodes), 0.0
    for node in nodes:
        passed += node.weight
        if passed > total * p / 100:
            return min(node.upper, high)
    return high
