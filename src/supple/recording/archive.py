"""Archives of arrays that are appended to while a program runs: `.npz` files that are readable at every moment.

An entry is written completely, with its size and checksum before it. The directory of a zip file stands at its end, so
it is written last. A file without it (the program was killed) is read entry by entry from its start.
"""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from supple.errors import MechanismError

LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
LOCAL_HEADER = struct.Struct("<4s2B4HL2L2H")
CENTRAL_HEADER = struct.Struct("<4s4B4HL2L5H2L")
FIRST_DAY = 0x21
"""1 January 1980: entries carry no date, so that equal contents are equal files."""
LARGEST = 2**32 - 1
"""Bytes: offsets beyond need the fields of Zip64."""


class ArchiveWriter:
    """Appends arrays to a file. What a call of `append` has written stays readable, whatever happens later.

    `file` is opened for binary reading and writing without a buffer; `where` is its name for error texts.
    """

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file, self.where = file, where
        self.size = 0
        """Bytes of all complete entries."""
        self._directory, self._count = bytearray(), 0
        self.closed = False

    def append(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Writes arrays as entries of these names, all of them or none.

        Raises:
            MechanismError: the file cannot be written, for example because the disk is full. It still has all that
                earlier calls wrote, and the call can be repeated.
        """
        content, directory = bytearray(), bytearray()
        for name, values in arrays.items():
            entry, record = _entry(name, values, self.size + len(content))
            content += entry
            directory += record
        self._write(bytes(content))
        self.size += len(content)
        self._directory += directory
        self._count += len(arrays)

    def close(self) -> None:
        """Writes the directory of the zip file and closes it. Raises as `append` does."""
        if self.closed:
            return
        try:
            self._write(bytes(self._directory) + self._end())
        finally:
            self.closed = True
            self.file.close()

    def _write(self, content: bytes) -> None:
        try:
            self.file.seek(self.size)
            rest = memoryview(content)
            while rest:
                rest = rest[self.file.write(rest) :]
        except (OSError, ValueError) as error:
            with suppress(OSError, ValueError):  # a half-written entry goes; the rest stays readable without it
                self.file.truncate(self.size)
                self.file.seek(self.size)
            reason = getattr(error, "strerror", None) or str(error)
            raise MechanismError(
                f"{self.where}: cannot write: {reason}; make space or choose another folder. The file has all that was "
                f"written before ({self.size / 2**20:.1f} MiB)"
            ) from None

    def _end(self) -> bytes:
        size, start, count = len(self._directory), self.size, self._count
        end = b""
        if start + size > LARGEST or count > 0xFFFF:
            end += struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
            end += struct.pack("<4sLQL", b"PK\6\7", 0, start + size, 1)
        shown = min(count, 0xFFFF)
        return end + struct.pack("<4s4H2LH", END, 0, 0, shown, shown, min(size, LARGEST), min(start, LARGEST), 0)


def _entry(name: str, values: NDArray[Any], offset: int) -> tuple[bytes, bytes]:
    """An array as an entry of a zip file that starts at `offset`, and its record in the directory."""
    text = io.BytesIO()
    np.lib.format.write_array(text, np.ascontiguousarray(values), allow_pickle=False)
    content, key = text.getvalue(), f"{name}.npy".encode()
    crc, size = zlib.crc32(content), len(content)
    common = (0, 0, 0, 0, FIRST_DAY, crc, size, size, len(key))  # reserved, flags, stored, time
    header = LOCAL_HEADER.pack(LOCAL, 20, *common, 0) + key
    extra = struct.pack("<2HQ", 1, 8, offset) if offset >= LARGEST else b""
    record = CENTRAL_HEADER.pack(CENTRAL, 45, 3, 20, *common, len(extra), 0, 0, 0, 0o600 << 16, min(offset, LARGEST))
    return header + content, record + key + extra


@dataclass(frozen=True)
class Entry:
    """Where an array lies in a file."""

    name: str
    offset: int
    size: int
    """Bytes."""
    crc: int


class Archive:
    """Reads arrays of a file that `ArchiveWriter` wrote, also of one that was cut off."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file, self.where = file, where
        self.entries: list[Entry] = []
        self.complete = False
        """Whether the file has its directory: it was closed by its writer."""
        self._scan()

    def _scan(self) -> None:
        """Finds the entries. A last one that is cut off does not count."""
        end, at = self.file.seek(0, io.SEEK_END), 0
        while at + LOCAL_HEADER.size <= end:
            self.file.seek(at)
            header = self.file.read(LOCAL_HEADER.size)
            if header[:4] != LOCAL:
                self.complete = header[:4] == CENTRAL
                return
            *_, flags, method, _, _, crc, size, full, name_length, extra = LOCAL_HEADER.unpack(header)
            start = at + LOCAL_HEADER.size + name_length + extra
            if flags or method or size != full or start + size > end:
                return
            name = self.file.read(name_length).decode("utf-8", "replace").removesuffix(".npy")
            self.entries.append(Entry(name, start, size, crc))
            at = start + size

    def read(self, entry: Entry) -> NDArray[Any]:
        """The array of an entry. Raises `MechanismError` if it is damaged."""
        self.file.seek(entry.offset)
        content = self.file.read(entry.size)
        try:
            if len(content) != entry.size or zlib.crc32(content) != entry.crc:
                raise ValueError("its checksum is wrong")
            return array_in(content)
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError) as error:
            raise MechanismError(f"{self.where} is damaged: entry '{entry.name}': {error}") from None


def array_in(content: bytes) -> NDArray[Any]:
    """The array in the bytes of an `.npy` file; raises ValueError unless its size fits and it has no Python objects."""
    text = io.BytesIO(content)
    version = np.lib.format.read_magic(text)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"version {version} of the array format")
    shape, fortran, dtype = read_header[version](text)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if dtype.hasobject or fortran or count < 0 or count * dtype.itemsize != len(content) - text.tell():
        raise ValueError("it is not an array of numbers of its stated size")
    return np.frombuffer(content, dtype, offset=text.tell()).reshape(shape)
