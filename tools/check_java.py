"""Check for a Java that PySpark can use; exit with 1 and installation hints if there is none."""

import os
import re
import shutil
import subprocess
import sys

JAVA_MAJOR_MIN = 17
HOW = "Install it (on Debian or Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one."


def main() -> int:
    """Return 0 if Java 17 or newer runs; else print instructions and return 1."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        print(f"PySpark needs Java {JAVA_MAJOR_MIN} or newer, and no java was found. {HOW}", file=sys.stderr)
        return 1
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if not found or int(found.group(1)) < JAVA_MAJOR_MIN:
        version = said.splitlines()[0] if said else "unknown"
        print(f"PySpark needs Java {JAVA_MAJOR_MIN} or newer; {java} is {version}. {HOW}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
