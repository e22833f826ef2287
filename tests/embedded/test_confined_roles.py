"""Roles with a read-only root and no capabilities, as in a container: they answer, and stop on request.

`python -m benchmarks.confined` gives them little memory, too, and queries that need more.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.cluster.confinement import what_is_missing
from benchmarks.confined import Crowd, Roles


@pytest.fixture
def roles(tmp_path: Path, zookeeper_hosts: str) -> Iterator[Roles]:
    if missing := what_is_missing():
        pytest.skip(f"no process can be confined: {missing}")
    made = Roles(tmp_path, zookeeper_hosts, None, "--no-warm-up")
    try:
        yield made
    finally:
        ends = {role.role: role.stop() for role in made.all}
        assert {role: status for role, (status, _) in ends.items()} == dict.fromkeys(ends, 0)


@pytest.mark.chaos
def test_roles_that_can_write_below_their_folders_only_answer_as_others_do(roles: Roles, tmp_path: Path) -> None:
    roles.wait_ready()
    crowd = Crowd(roles, roles.load(tmp_path, 20_000))
    crowd.ask_for(seconds=1, clients=2)
    assert crowd.answered > 0
    assert (crowd.problems, crowd.codes) == ([], {})
