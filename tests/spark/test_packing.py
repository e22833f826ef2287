"""Virtual environments packed as archives and unpacked elsewhere."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.spark.session.packing import pack_environment, submit_options


@pytest.fixture
def environment(tmp_path):
    """A virtual environment with a module, PySpark's jars, and no Gamay."""
    prefix = tmp_path / "made"
    venv.create(prefix, symlinks=True)
    (library,) = prefix.glob("lib/python3*/site-packages")
    (library / "helper.py").write_text("WORD = 'packed'\n")
    (library / "pyspark" / "jars").mkdir(parents=True)
    (library / "pyspark" / "jars" / "spark-core.jar").write_bytes(b"x" * 1000)
    (library / "pyspark" / "daemon.py").touch()
    return prefix


def test_it_works_wherever_it_is_unpacked(environment, tmp_path):
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "one.nbi").write_bytes(b"machine code")
    archive = tmp_path / "environment.tar.gz"
    pack_environment(archive, prefix=environment, kernels=kernels)
    (tmp_path / "made").rename(tmp_path / "gone")
    there = tmp_path / "elsewhere" / "environment"
    with tarfile.open(archive) as tar:
        tar.extractall(there, filter="fully_trusted")
    code = "import helper, gamay.base.errors as e, sys; print(helper.WORD, sys.prefix, e.__file__)"
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        ["./environment/bin/python", "-c", code], cwd=there.parent, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    word, prefix, file = done.stdout.split()
    assert (word, Path(prefix)) == ("packed", there)
    assert Path(file).is_relative_to(there)
    assert (there / "cache" / "kernels" / "one.nbi").read_bytes() == b"machine code"
    assert [path.name for path in there.glob("lib/python3*/site-packages/pyspark/*")] == ["daemon.py"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_another_path_of_the_interpreter(environment, tmp_path):
    archive = tmp_path / "environment.tgz"
    pack_environment(archive, prefix=environment, python=Path("/opt/python/bin/python3.11"))
    with tarfile.open(archive) as tar:
        links = {member.name: member.linkname for member in tar.getmembers() if member.issym()}
        config = tar.extractfile("pyvenv.cfg").read().decode()
    python = "bin/python"
    while python in links:
        python = links[python] if os.path.isabs(links[python]) else f"bin/{links[python]}"
    assert python == "/opt/python/bin/python3.11"
    assert "home = /opt/python/bin\n" in config
    assert str(Path(sys.executable).resolve().parent) not in config


def test_what_cannot_be_packed(environment, tmp_path):
    with pytest.raises(InvalidConfigError, match="is no virtual environment"):
        pack_environment(tmp_path / "a.tar.gz", prefix=tmp_path)
    with pytest.raises(InvalidConfigError, match=r"call it a\.whl\.tar\.gz"):
        pack_environment(tmp_path / "a.whl", prefix=environment)
    with pytest.raises(NotFoundError, match="there is no folder"):
        pack_environment(tmp_path / "nowhere" / "a.tar.gz", prefix=environment)
    (library,) = environment.glob("lib/python3*/site-packages")
    (library / "other.pth").write_text(f"import os\n{tmp_path}\n")
    with pytest.raises(InvalidConfigError, match=r"other\.pth names packages in .*, which are not packed"):
        pack_environment(tmp_path / "a.tar.gz", prefix=environment)
    assert list(tmp_path.glob("*a.tar.gz*")) == []


def test_drivers_and_executors_find_the_same_interpreter(environment, tmp_path):
    """Each from the folder it runs in: that which the environment is in, or that which the archive was unpacked in."""
    options = dict(option.split(" ", 1)[1].split("=", 1) for option in submit_options(Path("a.tgz"), environment)[1:])
    assert os.access(tmp_path / options["spark.pyspark.python"], os.X_OK)
    (archives,) = (option for option in submit_options(Path("a.tgz"), environment) if option.startswith("--archives"))
    assert archives == f"--archives {Path('a.tgz').absolute()}#made"
    assert options["spark.executorEnv.GAMAY_CACHE_DIR"] == "./made/cache"
