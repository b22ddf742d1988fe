"""Files that are written whole or not at all: a reader, a crash or a full disk sees the old file or the new one
(``write_whole``). And TOML, whose errors name the file (``read_toml``, ``require_fields``), and its prose (``prose``).
"""

import functools
import os
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any


@contextmanager
def staged(path: Path, content: bytes) -> Iterator[Path]:
    """The content as a complete file beside ``path``, to be moved there; gone afterwards if it was not."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        # "x": never through a link that lies in wait; and the mode is what the umask says, as for any other new file.
        with open(new, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


def read_toml(path: Path) -> Mapping[str, Any]:
    """What a TOML file holds; where it is none, a ValueError names the file, the line and the column. Every reader of
    the same text is given the same object, so nobody may change it.
    """
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"{path} is no TOML: {error}. A text stands in quotes, one of several lines in three."
        ) from None


@functools.cache  # a misconception's home is read again for each exercise that shares it
def _parsed(text: str) -> Mapping[str, Any]:
    return MappingProxyType(tomllib.loads(text))


def require_fields(path: Path, what: str, fields: Mapping[str, Any], needed: set[str], more: set[str]) -> None:
    """Refuses a table of a TOML file that lacks ``needed`` fields, or has others than these and ``more``.

    Raises:
        ValueError: it does; the message names the file, ``what`` table it is, and all fields there are.
    """
    missing, strange = sorted(needed - fields.keys()), sorted(fields.keys() - needed - more)
    if missing or strange:
        said = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(strange)}"] * bool(strange)
        allowed = ", ".join([*sorted(needed), *(f"{field} (if you like)" for field in sorted(more))])
        raise ValueError(f"{path}: {what} {' and '.join(said)}. Its fields are {allowed}.")


def prose(text: str) -> str:
    """A text of a TOML file in one line: there it stands on lines of the file's own width."""
    return " ".join(text.split())


def write_whole(path: Path, content: bytes | str) -> Path:
    """Writes a file in place of an older one. Returns ``path``. A text is written as UTF-8 with its own line ends;
    halves of surrogate pairs, which UTF-8 cannot hold, become question marks.

    Raises:
        OSError: it cannot be written; what was there before is as it was.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    with staged(path, data) as new:
        os.replace(new, path)
    return path
