"""Archives as publishers pack them, of the same bytes each time."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

RESOURCE_FORK = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        "
"""First bytes of the files that Apple's archiver puts below __MACOSX/."""


def zipped(files: Mapping[str, bytes], *, folders: bool = True, apple: bool = False) -> bytes:
    """Return a zip.

    Args:
        files: content by path.
        folders: whether each folder has an entry too, as `zip -r` writes them.
        apple: whether Apple's archiver made it, which adds a fork below __MACOSX/ beside each file.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        made: set[str] = set()
        for path, content in files.items():
            parts = path.split("/")[:-1]
            for end in range(1, len(parts) + 1) if folders else ():
                folder = "/".join(parts[:end]) + "/"
                if folder not in made:
                    made.add(folder)
                    archive.writestr(_entry(folder), b"")
            archive.writestr(_entry(path), content)
            if apple:
                archive.writestr(
                    _entry("/".join(["__MACOSX", *parts, f"._{path.split('/')[-1]}"])), RESOURCE_FORK
                )
    return out.getvalue()


def _entry(path: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, (2021, 4, 7, 0, 0, 0))
    info.compress_type = zipfile.ZIP_STORED if path.endswith("/") else zipfile.ZIP_DEFLATED
    info.external_attr = (0o755 << 16 | 0x10) if path.endswith("/") else 0o644 << 16
    return info


def tarred(files: Mapping[str, bytes], *, comment: str | None = None) -> bytes:
    """Return a tar packed by gzip.

    Args:
        files: content by path; folders have entries of their own.
        comment: of a global header, where GitHub's archives name the commit.
    """
    out = io.BytesIO()
    headers = {"comment": comment} if comment else {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as archive:
        made: set[str] = set()
        for path, content in files.items():
            parts = path.split("/")[:-1]
            for end in range(1, len(parts) + 1):
                folder = "/".join(parts[:end])
                if folder not in made:
                    made.add(folder)
                    info = tarfile.TarInfo(folder)
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(info)
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), 1, mtime=0)


def unpacked_size(archive: bytes) -> int:
    """Return the bytes of all files in an archive."""
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return sum(item.file_size for item in opened.infolist())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return sum(item.size for item in tar)
