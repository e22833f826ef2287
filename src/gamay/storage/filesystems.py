"""Opening of a URI's file system through fsspec, with helpful errors."""

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from gamay.base.errors import GamayError, InvalidConfigError, nearest

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

# The requirements of a scheme besides Gamay itself.
_EXTRAS: Mapping[str, str] = {
    "s3": "the extra gamay[s3]",
    "s3a": "the extra gamay[s3]",
    "gs": "the extra gamay[gcs]",
    "gcs": "the extra gamay[gcs]",
    "abfs": "the extra gamay[azure]",
    "abfss": "the extra gamay[azure]",
    "az": "the extra gamay[azure]",
    "hdfs": "Hadoop's native library (libhdfs, in the folder ARROW_LIBHDFS_DIR) and Java, with its jars on the CLASSPATH,",
}


_NO_LIBRARY = re.compile(r"Unable to load lib|Environment variable \w+ not set|lib(hdfs|jvm)\.")


def scheme_of(uri: str) -> str | None:
    """Return the scheme of a URI, lower case, or None for a plain path.

    >>> scheme_of("s3://bucket/key"), scheme_of("/data/x.tar.zst"), scheme_of("file:/tmp/x")
    ('s3', None, 'file')
    """
    scheme = urlsplit(uri).scheme
    return scheme if len(scheme) > 1 else None


def open_filesystem(uri: str, options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """Return the fsspec file system of a URI and the path in it. options: arguments of the file system.

    Raises InvalidConfigError for an unknown scheme or a missing package, and OSError like `explained`.
    """
    import fsspec

    scheme = scheme_of(uri) or ""
    try:
        with explained(f"cannot use {uri}"):
            fs, path = fsspec.core.url_to_fs(uri, **(options or {}))
    except ValueError as reason:
        known = fsspec.available_protocols()
        raise InvalidConfigError(f"cannot use {uri}: {reason}.{nearest(scheme, known)}") from None
    except (ImportError, OSError) as reason:
        # Arrow raises OSError if Hadoop's library or its Java machine cannot be loaded
        if isinstance(reason, OSError) and not _NO_LIBRARY.search(str(reason)):
            raise
        needed = _EXTRAS.get(scheme, "what this file system needs")
        raise InvalidConfigError(f"cannot use {uri}: install {needed} first ({_first_line(reason)})") from None
    return fs, path


def _first_line(reason: Exception) -> str:
    return str(reason).partition("\n")[0]


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert the specific errors of file systems' client libraries to OSError."""
    try:
        yield
    except (GamayError, OSError, ValueError, ImportError):
        raise
    except Exception as reason:
        raise OSError(f"{what}: {type(reason).__name__}: {reason}") from reason
