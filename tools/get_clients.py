"""Download third-party clients into build/clients, for tests/clients to query a cluster with.

    python tools/get_clients.py [--trino]

Trino, which is 1 GB to fetch and 200 MB to keep, comes only when it is asked for.
Each comes from its own registry by its own tool (npm, mvn, go, pip); what cannot be had is said, and its tests are skipped.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "build" / "clients"
PINOT_NPM = "pinot-client@0.3.0"
PINOT_CONNECT = "pinot-connect==0.1.1"
SOURCES = Path(__file__).parent.parent / "tests" / "clients"
FLIGHT_JDBC = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"
TRINO = "470"  # its archive in Maven still has the plug-in; later ones are split


def main() -> None:
    """Fetch all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trino", action="store_true", help="Trino's server, too, with its connector of Pinot")
    with_trino = parser.parse_args().trino
    FOLDER.mkdir(parents=True, exist_ok=True)
    _run("npm", "install", "--silent", "--prefix", str(FOLDER), PINOT_NPM)
    _run(*_copied(FLIGHT_JDBC))
    for pom, folder in (("pinot-common", "pinot"), ("pinot-jdbc", "pinot-jdbc")):
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={FOLDER / folder}"]
        _run("mvn", "-q", "-B", "-f", str(SOURCES / f"{pom}.pom.xml"), *goal)
    _run("go", "build", "-C", str(SOURCES / "pinot_go"), "-o", str(FOLDER / "pinot_go"), ".")
    _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER / "python"), PINOT_CONNECT)
    if with_trino and _run(*_copied(f"io.trino:trino-server:{TRINO}:tar.gz")):
        _unpack_trino(FOLDER / f"trino-server-{TRINO}.tar.gz")


def _copied(artifact: str) -> list[str]:
    return ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={FOLDER}"]


def _run(*command: str) -> bool:
    """Run a command, print its outcome, and return whether it succeeded."""
    if shutil.which(command[0]) is None:
        print(f"{command[0]} is not installed")
        return False
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"{' '.join(command)}: {'done' if done.returncode == 0 else done.stdout[-500:] + done.stderr[-500:]}")
    return done.returncode == 0


def _unpack_trino(archive: Path) -> None:
    """Keep the server and one plug-in; files of plug-ins are links to those of others, so all have to be unpacked."""
    if _run("tar", "xzf", str(archive), "-C", str(FOLDER)):
        for plugin in (FOLDER / f"trino-server-{TRINO}" / "plugin").iterdir():
            if plugin.name != "pinot":
                shutil.rmtree(plugin)
        archive.unlink()


if __name__ == "__main__":
    main()
