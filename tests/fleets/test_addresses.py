"""No rendering of an address contains its secret, wherever people write it, and however they mistype it."""

from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.records.secret import Address, Secret
from skytide.spark.fleet.settings import Settings

FIRST, LAST = "Zq", "Xj"
"""What a secret begins and ends with: no part of it may be seen."""
HOSTS = ("host", "host:6379", "127.0.0.1:6379", "[::1]:6379", "[fe80::1]", "one:9092,two:9092")
SCHEMES = ("redis://", "REDIS://", "rediss://", "kafka://", "redis+tls://", "redis:///")
MISTYPED = ("redis:/", "redis:", "REDIS:/", "redis//", "//", "", ":redis://", " redis:/")
NAMES = (
    "password",
    "PassWord",
    "pass%77ord",
    "PASS%2577ORD",
    "ssl_password",
    "passwd",
    "pwd",
    "auth_token",
    "client%5Fsecret",
    "api-key",
)
KEPT = ("password", "PassWord", "pass%77ord", "PASS%2577ORD")

secrets = st.text("ab1@/?#:=%+;[]. é", max_size=8).map(lambda middle: f"{FIRST}{middle}{LAST}")


def address_of(text: str) -> Address | None:
    """Return the address, or None if it is refused; nothing that is printed has a part of the secret."""
    found: Address | None = None
    try:
        found = Address.of(text)
        texts: list[Any] = [found, repr(found), f"{found}", found.plain, vars(found)]
        Settings(place=text, schema="x double", streams="a")
    except InvalidInput as error:
        texts = [error, *error.args, found, getattr(error, "value", "")]
    shown = "".join(map(str, texts))
    assert FIRST not in shown and LAST not in shown
    return found


@given(secret=secrets, scheme=st.sampled_from(SCHEMES), host=st.sampled_from(HOSTS), user=st.sampled_from(["", "me"]))
@example(secret=f"{FIRST}@ss{LAST}", scheme="redis://", host="[::1]:6379", user="user")
def test_a_password_before_the_host_is_kept_and_hidden(secret: str, scheme: str, host: str, user: str) -> None:
    for written in (secret, quote(secret, safe="")):
        found = address_of(f"{scheme}{user}:{written}@{host}/0")
        assert found and found.password == Secret(unquote(written))
        assert found.plain == f"{scheme}{user}@{host}/0".replace("//@", "//") or scheme == "redis:///"


@given(secret=secrets, scheme=st.sampled_from(SCHEMES[:5]), host=st.sampled_from(HOSTS), name=st.sampled_from(NAMES))
@example(secret=f"{FIRST}{LAST}", scheme="redis://", host="host", name="pass%77ord")
def test_a_password_among_the_options_is_kept_or_refused(secret: str, scheme: str, host: str, name: str) -> None:
    for before, after in (("?", ""), ("?db=1&", ""), ("?", "&db=1"), ("?db=1&", "&x=2")):
        found = address_of(f"{scheme}{host}/0{before}{name}={secret}{after}")
        options = (before.strip("?&") + after).strip("&")
        if name in KEPT:
            assert found == Address(f"{scheme}{host}/0{'?' * bool(options)}{options}", Secret(unquote(secret)))
        else:
            assert found is None


@given(secret=secrets, start=st.sampled_from(MISTYPED), host=st.sampled_from(HOSTS), name=st.sampled_from(NAMES))
@example(secret=f"{FIRST}{LAST}", start="redis:/", host="host", name="password")
def test_what_was_mistyped_shows_nothing(secret: str, start: str, host: str, name: str) -> None:
    address_of(f"{start}:{secret}@{host}")
    address_of(f"{start}me:{secret}@{host}/0")
    address_of(f"{start}{host}/0?{name}={secret}")
    address_of(f"redis://{host}/0#{name}={secret}")
    address_of(f"redis://{host}/0;{name}={secret}")
    for user in ("", "me"):  # the host was forgotten
        address_of(f"redis://{user}:{secret.replace('@', '')}")


@pytest.mark.parametrize(
    "folder", ["/data/me@home", "data/a b", "./x:y", "/data/12:30", "file:///data/a:b@c", "~/x", "a", "/data/k=v"]
)
def test_folders_are_no_addresses(folder: str) -> None:
    assert Address.of(folder) == Address(folder)


def test_the_search_finds_what_it_should() -> None:
    with pytest.raises(AssertionError):
        address_of(f"/data/{FIRST}")


@given(secret=secrets)
def test_what_follows_an_ampersand_in_a_password_is_not_shown(secret: str) -> None:
    plain = secret.replace("=", "").replace("?", "")
    for text in (f"redis://h?password=ab&{plain}", f"redis://h?x=1?password={secret}", f"redis://h/0?password%3D{plain}"):
        address_of(text)
    assert address_of(f"file://u:{secret.replace('/', '')}@h/x") is None
