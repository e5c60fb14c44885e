"""The server of the live page: files, server-sent events, and requests. It runs in a thread, and listens only on this machine by default."""

import asyncio
import hmac
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skytide.errors import SkytideError
from skytide.errors.checks import check_integer, refused
from skytide.errors.limits import MAX_PORT
from skytide.watch.listening import IDLE_S, MAX_CONNECTIONS, WAITING, bound, is_loopback, names_loopback, url_of
from skytide.watch.watch import Watch

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ModuleNotFoundError as missing:
    raise SkytideError(
        f"{missing.name} is not installed, but the live page needs it; run `pip install 'skytide[serve]'`"
    ) from missing

STATIC = Path(__file__).with_name("static")
PORT = 4090
PORTS_TRIED = 32
BEAT_S = 15.0  # a comment now and then, so that proxies keep the connection open
MIN_TOKEN = 8  # characters
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


_numbers = count()


class _Connection(H11Protocol):
    """A connection to the page. Of too many, the oldest that has not shown the token makes room; who asks for nothing, or does not read, is closed."""

    has_bearer: Callable[[str], bool]
    """Returns whether a header of a request has the token of the page."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._last: Any = None  # the request of the latest check
        self._stuck: asyncio.TimerHandle | None = None
        self._check = self.loop.call_later(IDLE_S, self._close_if_idle)
        self._number = next(_numbers)
        open_ones = [other for other in self.connections if isinstance(other, _Connection) and not other.transport.is_closing()]
        if len(open_ones) > MAX_CONNECTIONS:
            strangers = [other for other in open_ones if not other._is_trusted()]
            min(
                strangers, key=lambda other: other._number
            ).transport.abort()  # there is one at least, as this one has shown nothing yet

    def connection_lost(self, exc: Exception | None) -> None:
        self._check.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(IDLE_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def _is_trusted(self) -> bool:
        """Return whether the latest request has shown the token."""
        return any(name == b"authorization" and self.has_bearer(value.decode("latin-1")) for name, value in self.headers or ())

    def _close_if_idle(self) -> None:
        """Close the connection if no new request came since the latest check, and none is being answered."""
        if self.cycle is self._last and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()
            return
        self._last = self.cycle
        self._check = self.loop.call_later(IDLE_S, self._close_if_idle)


class _OwnHost:
    """Lets nobody ask under a strange name: a page of another site could make a browser on this machine ask us under a name of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = names_loopback(Request(scope).headers.get("host", ""))
        await (self._app if named else PlainTextResponse("another host was asked", 400))(scope, receive, send)


class Page:
    """A live page, served by this process: what `serve()` of a query, an auto-scaler or a fleet returns.

    See [Operating](operating.md).

    Examples
    --------
    ```
    page = run.serve()
    print(page.url)  # open it in a browser
    page.stop()
    ```
    """

    def __init__(self, watch: Watch, address: str = "127.0.0.1", port: int | None = None, token: str | None = None) -> None:
        """Serve at an address; without a port, on the first free one from 4090 on."""
        if port is not None:
            check_integer("port", port, 0, MAX_PORT)
        if token is not None and (
            not isinstance(token, str) or len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable()
        ):
            raise refused("token", "...", f"not a text of at least {MIN_TOKEN} plain characters", "leave it out, and one is made")
        self._watch, self._token, self._open = watch, token or secrets.token_urlsafe(16), is_loopback(address)
        sock = bound(address, range(PORT, PORT + PORTS_TRIED) if port is None else (port,))
        self.address, self.port = address, int(sock.getsockname()[1])
        self._wake: asyncio.Event | None = None
        self._stopping = False
        config = uvicorn.Config(
            self._app(),
            http=type("_OfThisPage", (_Connection,), {"has_bearer": staticmethod(self._has_bearer)}),
            ws="none",
            backlog=WAITING,
            log_level="error",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, args=(sock,), name="skytide-page", daemon=True)
        self._unsubscribe = watch.subscribe(self._wake_viewers)
        self._thread.start()

    def __repr__(self) -> str:
        """Return the page with its address."""
        return f"Page({self.url})"

    @property
    def url(self) -> str:
        """The address with the token, which lets people do more than look; on this machine, the address alone is enough to look.

        A browser sends what comes after "#" nowhere. The page keeps it for its own address and port, and sends it in a header: a cookie
        would reach all ports of the host.
        """
        return f"{url_of(self.address, self.port)}/#token={quote(self._token)}"

    @property
    def is_up(self) -> bool:
        """Whether it is served."""
        return not self._stopping and self._thread.is_alive()

    def stop(self) -> None:
        """Stop serving; open pages keep what they show, and come back to life if it is served again."""
        if self._stopping:
            return
        self._stopping = True
        self._unsubscribe()
        self._server.should_exit = True
        self._wake_viewers()
        self._thread.join()

    def _work(self, sock: socket.socket) -> None:
        async def serve() -> None:
            self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
            await self._server.serve(sockets=[sock])

        try:
            asyncio.run(serve())
        finally:
            sock.close()

    def _wake_viewers(self) -> None:
        """Wake all viewers, from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        if self._wake is not None:
            self._wake.set()
        self._wake = asyncio.Event()

    def _app(self) -> Starlette:
        routes = [
            Route("/", self._index),
            Route("/events", self._events),
            Route("/act/{subject}/{action}", self._act, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(_OwnHost)] if self._open else [])

    async def _index(self, request: Request) -> Response:
        """Return the empty page; what it shows are events."""
        return FileResponse(STATIC / "index.html", headers=HEADERS)

    async def _events(self, request: Request) -> Response:
        if not self._may_look(request):
            return PlainTextResponse("needs the token", 403)
        return StreamingResponse(
            self._event_stream(request.headers.get("last-event-id", ""), self._may_act(request)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _event_stream(self, last_id: str, acts: bool) -> AsyncIterator[str]:
        """Yield everything for a viewer, and then what is new. A viewer is only a number, so one that is slow costs nothing."""
        born, _, number = last_id.partition("-")
        sent = int(number) if born == self._watch.born and number.isdigit() else None
        while not self._stopping:
            wake = self._wake
            updates = None if sent is None else self._watch.after(sent)
            if updates is None:
                sent, data = self._watch.all()
                yield _event("all", self._id(sent), f'{{"acts": {str(acts).lower()}, "subjects": {data}}}')
            for sent, data in updates or ():
                yield _event("update", self._id(sent), data)
            try:
                if wake is not None:
                    await asyncio.wait_for(wake.wait(), BEAT_S)
            except TimeoutError:
                yield ": still here\n\n"

    async def _act(self, request: Request) -> Response:
        if not self._may_act(request):
            return PlainTextResponse("needs the token", 403)
        subject, action = request.path_params["subject"], request.path_params["action"]
        try:
            done = await asyncio.to_thread(self._watch.act, subject, action)
        except Exception as error:
            return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 500)
        return JSONResponse({}) if done else JSONResponse({"error": f"nothing to {action}"}, 404)

    def _id(self, number: int) -> str:
        return f"{self._watch.born}-{number}"

    def _may_look(self, request: Request) -> bool:
        return self._open or self._may_act(request)

    def _may_act(self, request: Request) -> bool:
        return self._has_bearer(request.headers.get("authorization", ""))

    def _has_bearer(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        return scheme == "Bearer" and self.has_token(given)

    def has_token(self, given: str) -> bool:
        """Return whether a text is the token."""
        return hmac.compare_digest(given.encode(), self._token.encode())


def _event(name: str, number: str, data: str) -> str:
    return f"event: {name}\nid: {number}\ndata: {data}\n\n"
