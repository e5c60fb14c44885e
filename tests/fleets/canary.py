"""A secret, and the search for it."""

import base64
from urllib.parse import quote

CANARY = "cana@ry/7w?3k"  # with what ends a password for those who look for its end


def found_in(data: bytes | str) -> bool:
    """Return whether the canary is in some data, as it is, quoted, or in base64, wherever that begins."""
    raw = data.encode(errors="replace") if isinstance(data, str) else data
    secret = CANARY.encode()
    shifted = [base64.b64encode(b"\0" * shift + secret)[4 if shift else 0 : -4] for shift in range(3)]
    return any(form in raw for form in (secret, quote(CANARY, safe="").encode(), *shifted))
