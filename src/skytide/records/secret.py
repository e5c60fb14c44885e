"""Secrets, and addresses that contain them: what prints a record of ours, logs it or sends it as an option never has the secret at hand."""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from skytide.errors import InvalidInput

HIDDEN = "***"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)
_NO_FOLDER = re.compile(r"[a-z][a-z0-9+.-]+:|.*:.*@|.*[?&#;][^/]*=", re.IGNORECASE | re.DOTALL)
_OPTION = re.compile(r"([?&#;])([^=&?#;@/]*)=([^&]*)")
_PLAIN_OPTION = re.compile(r"[^=?]+=[^=?]*")
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:\d+)?")
_SECRETS = re.compile(r"pass|pwd|secret|token|auth|cred|api.?key", re.IGNORECASE)


class Secret:
    """A text that only `reveal` shows. It is pickled as it is, since tasks need it: pickles of it belong into no file and no option.

    >>> print(Secret("hunter2"), repr(Secret("hunter2")), f"{Secret('hunter2'):>5}", Secret("hunter2").reveal())
    *** ***   *** hunter2
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keep a text."""
        self._text = text

    def reveal(self) -> str:
        """Return the text, for who needs it."""
        return self._text

    def __repr__(self) -> str:
        """Return the same for all secrets."""
        return HIDDEN

    def __format__(self, spec: str) -> str:
        """Return the same for all secrets."""
        return format(HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same secret."""
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        """Return a hash, so that connections can be kept by what they were opened with."""
        return hash((Secret, self._text))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text."""
        return Secret, (self._text,)


def hidden(options: Mapping[str, str] | object) -> dict[str, Secret]:
    """Return options of a format, any of which may be a secret."""
    if not isinstance(options, Mapping):
        raise InvalidInput(
            value="options=...", reason="not options", remedy='pass them by their names, as in options={"header": "true"}'
        )
    return {name: Secret(value) for name, value in options.items()}


def revealed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with their secrets, for the call that needs them."""
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}


@dataclass(frozen=True)
class Address:
    """An address without its password, and the password."""

    plain: str
    password: Secret | None = None

    @staticmethod
    def of(text: str) -> "Address":
        """Return an address as people write it, divided; a password may contain @ and /, and may be given as `?password=`.

        >>> Address.of("redis://me:hunter2@host:6379/0"), Address.of("redis://:p@ss/w?rd@host"), Address.of("redis://host/0?password=p@ss&db=1")
        (Address(plain='redis://me@host:6379/0', password=***), Address(plain='redis://host', password=***), Address(plain='redis://host/0?db=1', password=***))
        >>> Address.of("redis://:p@ss/w?rd@host").password.reveal(), Address.of("/data/me@home")
        ('p@ss/w?rd', Address(plain='/data/me@home', password=None))
        """
        scheme, separator, rest = text.partition("://")
        if scheme.lower() == "file" and "@" in rest.partition("/")[0]:
            raise _refused("a folder of this machine has no user and password", "write file:///data/name")
        if scheme.lower() == "file" or not (separator or _NO_FOLDER.match(text)):
            return Address(text)
        if not separator or not _SCHEME.fullmatch(scheme):
            raise _refused(
                "not an address", "write redis://host/0 with two slashes; a folder with such a name is file:///data/name"
            )
        passwords: list[str] = []

        def without(option: re.Match[str]) -> str:
            name = _decoded(option[2])
            if name.lower() == "password":
                passwords.append(option[3])
                return option[1]
            if _SECRETS.search(name):
                reason = "one of its options is a secret, which an address cannot hold without showing it"
                raise _refused(reason, "leave it out; ?password= and user:password@ are kept")
            return option[0]

        rest = re.sub("([?&;])[&;]+", r"\1", _OPTION.sub(without, rest)).rstrip("?&;")
        before, _, host = rest.rpartition("@")
        user, colon, given = before.partition(":")
        if colon:
            passwords.append(given)
        rest = f"{user}@{host}" if user else host
        if re.search("[?&;#]", user) or "#" in rest or not all(map(_HOST.fullmatch, re.split("[/?]", host)[0].split(","))):
            raise _refused("not host:port after the password, if there is one", "write redis://user:password@host:6379/0")
        options = host.partition("?")[2]
        if options and not all(map(_PLAIN_OPTION.fullmatch, re.split("[&;]", options))):
            raise _refused("not options after the question mark", "write ?name=value&name=value, and & in a password as %26")
        return Address(f"{scheme}://{rest}", Secret(unquote(passwords[-1])) if passwords else None)


def _decoded(name: str) -> str:
    """Return the name of an option, however often it was encoded."""
    while (plain := unquote(name)) != name:
        name = plain
    return name


def _refused(reason: str, remedy: str) -> InvalidInput:
    """Return the error for an address of which nothing is shown, as any part of it may be the secret."""
    return InvalidInput(value=HIDDEN, reason=reason, remedy=remedy)
