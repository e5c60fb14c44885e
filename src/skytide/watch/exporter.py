"""A small server that Prometheus reads from. One thread serves all connections; they are few, and each has one request and little time."""

import asyncio
import threading
from collections.abc import Iterable

from skytide.errors import SkytideError
from skytide.errors.checks import check_integer
from skytide.errors.limits import MAX_PORT
from skytide.watch.listening import IDLE_S, MAX_CONNECTIONS, WAITING, bound, is_loopback, names_loopback, url_of
from skytide.watch.metrics import families
from skytide.watch.watch import Watch

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector
except ModuleNotFoundError as missing:
    raise SkytideError(f"{missing.name} is not installed, but metrics need it; run `pip install 'skytide[metrics]'`") from missing

MAX_REQUEST = 16_384  # bytes


class Exporter(Collector):
    """A small server that Prometheus reads from: what `metrics()` of a query, an auto-scaler or a fleet returns.

    See [Operating](operating.md).

    Examples
    --------
    ```
    exporter = run.metrics(9108)
    print(exporter.url)  # http://127.0.0.1:9108/metrics
    exporter.stop()
    ```
    """

    def __init__(self, watch: Watch, port: int, address: str = "127.0.0.1") -> None:
        """Start to listen."""
        check_integer("port", port, 0, MAX_PORT)
        self._watch, self._registry = watch, CollectorRegistry()
        self._registry.register(self)
        self._sock = bound(address, (port,))
        self.address, self.port = address, int(self._sock.getsockname()[1])
        self._open, self._connections = is_loopback(address), set[asyncio.Transport]()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="skytide-metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the metrics."""
        return f"{url_of(self.address, self.port)}/metrics"

    def describe(self) -> Iterable[Metric]:
        """Return nothing: which metrics there are depends on what runs."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of everything that is watched."""
        return families(self._watch.watched())

    @property
    def is_up(self) -> bool:
        """Whether it listens."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop listening."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _work(self) -> None:
        loop = self._loop
        server = loop.run_until_complete(loop.create_server(lambda: _Reading(self), sock=self._sock, backlog=WAITING))
        try:
            loop.run_forever()
        finally:
            server.close()
            for transport in list(self._connections):
                transport.abort()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request."""
        first, *lines = request.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if not first.startswith("GET "):
            return _response("405 Method Not Allowed", "text/plain", b"only GET\n")
        if self._open and not names_loopback(headers.get("host", "")):
            return _response("400 Bad Request", "text/plain", b"another host was asked\n")
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return _response("200 OK", content_type, encode(self._registry))


class _Reading(asyncio.Protocol):
    """A connection: it has one request, and some seconds in all."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter, self._read = exporter, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, open_ones = transport, self._exporter._connections
        if len(open_ones) >= MAX_CONNECTIONS:
            transport.abort()
            return
        open_ones.add(transport)
        self._end = asyncio.get_running_loop().call_later(IDLE_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._read += data
        request, end, _ = self._read.partition(b"\r\n\r\n")
        if end:
            self._transport.write(self._exporter.answer(request))
            self._transport.close()
        elif len(self._read) > MAX_REQUEST:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport in self._exporter._connections:
            self._exporter._connections.discard(self._transport)
            self._end.cancel()


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
