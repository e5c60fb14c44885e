"""The text of a manifest: a line with its format and checksum, and a line with the state."""

import hashlib
import json
from typing import Any, NamedTuple

FORMAT = 5
READABLE = (3, 4, FORMAT)
"""What a version reads; its manifests get a new number if earlier versions would misread them."""


class Damaged(Exception):
    """A manifest was cut off or changed."""


class OtherFormat(Exception):
    """A manifest was written by another version."""


class Manifest(NamedTuple):
    """The content of a manifest."""

    written_us: int
    """When it was written, by the clock of the driver."""
    body: str
    """The state, as JSON."""


def packed(body: str, written_us: int) -> bytes:
    """Return the text of a manifest.

    >>> unpacked(packed('{"batch": 3}', 1_000)).body
    '{"batch": 3}'
    """
    head = {"format": FORMAT, "checksum": _checksum(body), "written_us": written_us}
    return f"{json.dumps(head)}\n{body}\n".encode()


def unpacked(data: bytes) -> Manifest:
    """Return the content of a manifest; raise if it is damaged or of another format."""
    try:
        head, _, body = data.decode().partition("\n")
        header: dict[str, Any] = json.loads(head)
        format_number = int(header["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"not a manifest: {error}") from None
    if format_number not in READABLE:
        newer = "a newer" if format_number > FORMAT else "an older"
        readable = f"{READABLE[0]} to {FORMAT}"
        raise OtherFormat(f"written by {newer} skytide, in format {format_number}, while this one reads only {readable}")
    if not body.endswith("\n") or header.get("checksum") != _checksum(body[:-1]):
        raise Damaged("its checksum does not match: it was cut off or changed")
    return Manifest(int(header.get("written_us", 0)), body[:-1])


def _checksum(body: str) -> str:
    return hashlib.blake2b(body.encode(), digest_size=16).hexdigest()
