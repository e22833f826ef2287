"""Fetch clients that others wrote into build/clients, for tests/clients to ask a cluster with.

    python tools/get_clients.py

Each comes from its own registry by its own tool (npm, mvn, pip); what cannot be had is said, and its tests are skipped.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "build" / "clients"
PINOT_NPM = "pinot-client@0.3.0"
PINOT_CONNECT = "pinot-connect==0.1.1"
PINOT_COMMON = Path(__file__).parent.parent / "tests" / "clients" / "pinot-common.pom.xml"
FLIGHT_JDBC = "org.apache.arrow:flight-sql-jdbc-driver:18.3.0"


def main() -> None:
    """Fetch all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    copied = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={FLIGHT_JDBC}", f"-DoutputDirectory={FOLDER}"]
    pinot = ["mvn", "-q", "-B", "-f", str(PINOT_COMMON), "dependency:copy-dependencies", f"-DoutputDirectory={FOLDER}/pinot"]
    commands = [
        ["npm", "install", "--silent", "--prefix", str(FOLDER), PINOT_NPM],
        copied,
        pinot,
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER / "python"), PINOT_CONNECT],
    ]
    for command in commands:
        if shutil.which(command[0]) is None:
            print(f"{command[0]} is not installed")
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(f"{' '.join(command)}: {'done' if done.returncode == 0 else done.stdout[-500:] + done.stderr[-500:]}")


if __name__ == "__main__":
    main()
