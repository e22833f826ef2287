"""A segment folder as a single file: `.tar.zst`, or `.tar.gz`.

Equal folders give equal archives: members sorted by name, no times, no owners. An archive's format is recognised by its
first bytes, not by its name. Archives are untrusted: nothing is written outside the destination, links and devices
are rejected, sizes are limited.
"""

import errno
import gzip
import io
import shutil
import tarfile
import tempfile
import textwrap
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, cast

import zstandard

from gamay.base.errors import ConflictError, CorruptSegmentError, InvalidConfigError

# The flights (10 MB): level 3 makes 5.0 MB in 54 ms, 6 makes 4.84 in 110, 9 makes 4.81 in 162, 19 makes 4.57 in 2,841.
ZSTD_LEVEL = 6
# For archives that Spark executors write in large numbers: less than half the time, and two percent larger.
ZSTD_LEVEL_JOBS = 3
# For archives that a caller waits for: a quarter of the time, and a few percent larger.
ZSTD_LEVEL_QUICK = 1
GZIP_LEVEL = 6
UNPACKED_BYTES_MAX = 64 << 30
MEMBERS_MAX = 10_000

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_MAGIC = b"\x1f\x8b"
_COPY_BYTES = 1 << 20
# What may lie between two members: headers, long names, padding, read-ahead.
_HEADERS_BYTES_MAX = 2 << 20


def pack(folder: Path | str, archive: Path | str, zstd_level: int = ZSTD_LEVEL) -> Path:
    """Write a folder, under its own name, into an archive, atomically.

    The name selects the format: `.tar.zst`, or `.tar.gz` and `.tgz`. zstd_level: for the former.
    Raises InvalidConfigError for another name.
    """
    folder, archive = Path(folder), Path(archive)
    is_zstd = archive.name.endswith(".tar.zst")
    if not is_zstd and not archive.name.endswith((".tar.gz", ".tgz")):
        raise InvalidConfigError(f"unknown format of archive {archive}: expected a name in .tar.zst, .tar.gz or .tgz")
    with tempfile.NamedTemporaryFile(prefix=f".{archive.name}.", dir=archive.parent, delete=False) as file:
        try:
            if is_zstd:
                compressor = zstandard.ZstdCompressor(level=zstd_level, write_checksum=True)
                with compressor.stream_writer(file, closefd=False) as out:
                    _write_tar(folder, cast(IO[bytes], out))
            else:
                with gzip.GzipFile("", "wb", GZIP_LEVEL, cast(IO[bytes], file), mtime=0) as out:
                    _write_tar(folder, cast(IO[bytes], out))
            Path(file.name).chmod(0o644)
            Path(file.name).replace(archive)
        except BaseException:
            Path(file.name).unlink()
            raise
    return archive


def _write_tar(folder: Path, out: IO[bytes]) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in [folder, *sorted(folder.rglob("*"))]:
            member = tarfile.TarInfo(str(PurePosixPath(folder.name, *path.relative_to(folder).parts)))
            if path.is_dir():
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            else:
                member.size, member.mode = path.stat().st_size, 0o644
                with path.open("rb") as content:
                    tar.addfile(member, content)


def unpack(
    archive: Path | str, destination: Path | str, *, bytes_max: int = UNPACKED_BYTES_MAX, members_max: int = MEMBERS_MAX
) -> Path:
    """Unpack an archive into the folder `destination`, which must not exist or be empty, and return it.

    A single folder at the top of the archive is stripped: its content becomes the content of `destination`. The folder
    appears atomically. Raises CorruptSegmentError for an archive that is damaged, foreign, unsafe or too large, and
    ConflictError if the destination exists.
    """
    archive, destination = Path(archive), Path(destination)
    if destination.exists() and any(destination.iterdir()):
        raise ConflictError(f"cannot unpack {archive.name}: {destination} exists already")
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        with _decompressed(archive) as stream:
            _extract(stream, archive, temporary, bytes_max, members_max)
        entries = list(temporary.iterdir())
        content = entries[0] if len(entries) == 1 and entries[0].is_dir() else temporary
        if not entries or not any(content.iterdir()):
            raise CorruptSegmentError(f"{archive.name} holds no files")
        content.chmod(0o755)
        content.rename(destination)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return destination


@contextmanager
def _decompressed(archive: Path) -> Iterator[IO[bytes]]:
    with archive.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        try:
            if magic == _ZSTD_MAGIC:
                with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
                    yield cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, stream), _COPY_BYTES))
            elif magic[:2] == _GZIP_MAGIC:
                with gzip.GzipFile(fileobj=file) as stream:
                    yield cast(IO[bytes], stream)
            else:
                raise CorruptSegmentError(
                    f"{archive.name} is neither a .tar.zst nor a .tar.gz archive: it starts with {magic!r}"
                )
        except (zstandard.ZstdError, zlib.error, EOFError, gzip.BadGzipFile, tarfile.TarError) as reason:
            raise CorruptSegmentError(f"{archive.name} is damaged or truncated: {reason}") from None


def _extract(stream: IO[bytes], archive: Path, folder: Path, bytes_max: int, members_max: int) -> None:
    total = count = 0
    metered = _Metered(stream, archive)
    with tarfile.open(fileobj=cast(IO[bytes], metered), mode="r|") as tar:
        for member in tar:
            total, count = total + member.size, count + 1
            if count > members_max or total > bytes_max:
                raise CorruptSegmentError(
                    f"{archive.name} is too large: more than {members_max:,} members or {bytes_max:,} bytes when unpacked"
                )
            metered.left = member.size + _HEADERS_BYTES_MAX
            target = _target(member, archive, folder)
            try:
                _write_member(tar, member, target)
            except OSError as error:
                if error.errno not in _IMPOSSIBLE:
                    raise
                shown = textwrap.shorten(member.name, _NAME_SHOWN)
                problem = " twice" if error.errno == errno.EEXIST else f": {error.strerror}"
                raise CorruptSegmentError(f"{archive.name} has the member '{shown}'{problem}") from error
    if count == 0:
        raise CorruptSegmentError(f"{archive.name} holds no files")
    # Reading to the end verifies the checksum after the compressed data.
    metered.left = _HEADERS_BYTES_MAX
    while metered.read(_COPY_BYTES):
        pass


def _write_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None  # that of a plain file
    with target.open("xb") as out:
        shutil.copyfileobj(content, out, _COPY_BYTES)


_NAME_SHOWN = 80
# the name is invalid, or another member has it already
_IMPOSSIBLE = frozenset({errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EILSEQ})


class _Metered:
    """A stream with a limit on the bytes read, since a header can claim any size."""

    def __init__(self, stream: IO[bytes], archive: Path) -> None:
        self._stream = stream
        self._archive = archive
        self.left = _HEADERS_BYTES_MAX

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise CorruptSegmentError(f"{self._archive} has headers of more than {_HEADERS_BYTES_MAX:,} bytes")
        return data


def _target(member: tarfile.TarInfo, archive: Path, folder: Path) -> Path:
    """Return the path to extract a member to; raises CorruptSegmentError unless it is a plain file or folder in `folder`."""
    if not (member.isfile() or member.isdir()):
        raise CorruptSegmentError(f"{archive.name} has the member '{member.name}', a link or device; expected plain files")
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
        raise CorruptSegmentError(
            f"{archive.name} has the member '{member.name}', which would be written outside its folder"
        )
    return folder.joinpath(*name.parts)
