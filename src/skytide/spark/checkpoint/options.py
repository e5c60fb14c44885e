"""The settings of Hadoop's file systems as options of Arrow's, so that both reach the same files."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from skytide.records.secret import Secret

Setting = Callable[[str], str | None]
"""Returns a setting of Hadoop by its key."""


def arrow_options(uri: str, setting: Setting) -> dict[str, Any]:
    """Return the options of Arrow's file system for a URI, from the settings of Hadoop's.

    >>> arrow_options("s3a://b/x", {"fs.s3a.endpoint": "http://127.0.0.1:9000", "fs.s3a.path.style.access": "true"}.get)
    {'endpoint_override': '127.0.0.1:9000', 'scheme': 'http'}
    """
    parts = urlsplit(uri)
    if parts.scheme == "s3a":
        return _s3(parts.netloc, setting)
    if parts.scheme in ("abfs", "abfss"):
        return _azure(parts.netloc, setting)
    return {}


def _s3(bucket: str, setting: Setting) -> dict[str, Any]:
    def of_bucket(key: str) -> str | None:
        return setting(f"fs.s3a.bucket.{bucket}.{key}") or setting(f"fs.s3a.{key}")

    options: dict[str, Any] = {}
    for name, key in (("access_key", "access.key"), ("secret_key", "secret.key"), ("session_token", "session.token")):
        if value := of_bucket(key):
            options[name] = Secret(value)
    if region := of_bucket("endpoint.region"):
        options["region"] = region
    if "AnonymousAWSCredentialsProvider" in (of_bucket("aws.credentials.provider") or ""):
        options["anonymous"] = True
    secure = of_bucket("connection.ssl.enabled") != "false"
    if endpoint := of_bucket("endpoint"):
        scheme, _, address = endpoint.rpartition("://")
        options["endpoint_override"] = address.rstrip("/")
        if of_bucket("path.style.access") != "true":
            options["force_virtual_addressing"] = True
        if scheme:
            secure = scheme == "https"
    if not secure:
        options["scheme"] = "http"
    return options


def _azure(authority: str, setting: Setting) -> dict[str, Any]:
    host = authority.rpartition("@")[2]
    account = host.partition(".")[0]
    key = setting(f"fs.azure.account.key.{host}") or setting("fs.azure.account.key")
    return {"account_name": account, **({"account_key": Secret(key)} if key else {})}
