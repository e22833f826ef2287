"""The lock of a data folder, which one process at a time may use."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from gamay.base.errors import InUseError, InvalidConfigError

_NAME = "gamay.lock"


class FolderLock:
    """The lock of a data folder, held until `release`, or until the process dies."""

    def __init__(self, folder: Path) -> None:
        """Take the lock, and create the folder if needed.

        Raises InUseError that names the process holding it, and InvalidConfigError if the folder cannot be created.
        """
        path = folder / _NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+")
        except OSError as error:
            raise InvalidConfigError(
                f"cannot write to the data folder '{folder}': {error.strerror}; choose a folder that this user may write to"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner, _, text = self._file.read().partition("\n")
            self._file.close()
            addresses = _addresses(text)
            raise InUseError(_in_use(folder, owner, addresses), addresses.get("broker")) from None
        self.describe({})

    def describe(self, addresses: Mapping[str, str]) -> None:
        """Write this process and the addresses of its roles into the lock file, for the error message of other
        processes."""
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n{json.dumps(dict(addresses))}\n")
        self._file.flush()

    def is_of(self, folder: Path) -> bool:
        """Whether this is the lock of the folder at a path; False if the folder was recreated."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), (folder / _NAME).stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the folder."""
        self._file.close()


def _addresses(text: str) -> Mapping[str, str]:
    try:
        return {str(role): str(address) for role, address in json.loads(text).items()}
    except (ValueError, AttributeError):
        return {}


def _in_use(folder: Path, owner: str, addresses: Mapping[str, str]) -> str:
    text = f"the data folder '{folder}' is in use by process {owner.strip() or 'unknown'}"
    if broker := addresses.get("broker"):
        return f"{text}: ask its cluster over HTTP instead, with gamay sql {broker}, or stop it"
    if server := addresses.get("server"):
        return f"{text}, the server at {server}: give each server its own folder, or stop that one first"
    return f"{text}, which has no HTTP interface: close it there, or run 'gamay start all' on the folder to share it"
