"""The server of the live page: files, server-sent events, and requests. It runs in a thread, and listens only on this machine by default."""

import asyncio
import hmac
import ipaddress
import secrets
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skytide.errors import InvalidInput, SkytideError
from skytide.errors.checks import refused, whole, words
from skytide.errors.limits import MAX_PORT
from skytide.watch.watch import Watch

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
except ModuleNotFoundError as missing:
    raise SkytideError(
        f"{missing.name} is not installed, but the live page needs it; run `pip install 'skytide[serve]'`"
    ) from missing

STATIC = Path(__file__).with_name("static")
PORT = 4090
PORTS_TRIED = 32
BEAT_S = 15.0  # a comment now and then, so that proxies keep the connection open
RETRY_MS = 1_000
MIN_TOKEN = 8  # characters
WAITING = 128  # connections before the server is up
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Page:
    """A live page, served by this process."""

    def __init__(self, watch: Watch, address: str = "127.0.0.1", port: int | None = None, token: str | None = None) -> None:
        """Serve at an address; without a port, on the first free one from 4090 on."""
        words("address", address, "127.0.0.1")
        if port is not None:
            whole("port", port, 0, MAX_PORT)
        if token is not None and (
            not isinstance(token, str) or len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable()
        ):
            raise refused("token", "...", f"not a text of at least {MIN_TOKEN} plain characters", "leave it out, and one is made")
        self._watch, self._token, self._open = watch, token or secrets.token_urlsafe(16), is_loopback(address)
        sock = _bound(address, port)
        self.address, self.port = address, int(sock.getsockname()[1])
        self._cookie = f"skytide-{self.port}"  # cookies are shared by all ports of a host
        self._wake: asyncio.Event | None = None
        self._stopping = False
        config = uvicorn.Config(self._app(), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, args=(sock,), name="skytide-page", daemon=True)
        self._unsubscribe = watch.subscribe(self._news)
        self._thread.start()

    def __repr__(self) -> str:
        """Return the page with its address."""
        return f"Page({self.url})"

    @property
    def url(self) -> str:
        """The address with the token, which lets people do more than look; on this machine, the address alone is enough to look."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/?token={quote(self._token)}"

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
        self._news()
        self._thread.join()

    def _work(self, sock: socket.socket) -> None:
        async def serve() -> None:
            self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
            await self._server.serve(sockets=[sock])

        try:
            asyncio.run(serve())
        finally:
            sock.close()

    def _news(self) -> None:
        """Wake all viewers, from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        if self._wake is not None:
            self._wake.set()
        self._wake = asyncio.Event()

    def _app(self) -> Starlette:
        # Without this, a page of another site could make a browser on this machine ask us under a name of its own.
        hosts = ["127.0.0.1", "localhost", "[::1]"] if self._open else ["*"]
        routes = [
            Route("/", self._index),
            Route("/events", self._events),
            Route("/act/{subject}/{action}", self._act, methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts)])

    async def _index(self, request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None and self.has_token(given):  # the browser keeps it, and the address no longer shows it
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, given, httponly=True, samesite="strict")
            return answer
        if not self._may_look(request):
            return PlainTextResponse("This page needs its token: open the whole address that was printed when it was started.", 403)
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
        yield f"retry: {RETRY_MS}\n\n"
        born, _, number = last_id.partition("-")
        known = int(number) if born == self._watch.born and number.isdigit() else None
        while not self._stopping:
            wake = self._wake
            news = None if known is None else self._watch.after(known)
            if news is None:
                known, data = self._watch.all()
                yield _event("all", self._id(known), f'{{"acts": {str(acts).lower()}, "subjects": {data}}}')
            for known, data in news or ():
                yield _event("news", self._id(known), data)
            try:
                if wake is not None:
                    await asyncio.wait_for(wake.wait(), BEAT_S)
            except TimeoutError:
                yield ": still here\n\n"

    async def _act(self, request: Request) -> Response:
        # A page of another site can neither read our cookie nor set this header.
        if not self._may_act(request) or request.headers.get("x-skytide") != "act":
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
        return self.has_token(request.cookies.get(self._cookie, ""))

    def has_token(self, given: str) -> bool:
        """Return whether a text is the token."""
        return hmac.compare_digest(given.encode(), self._token.encode())


def is_loopback(address: str) -> bool:
    """Return whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("10.0.0.7")
    (True, True, False, False)
    """
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _event(kind: str, number: str, data: str) -> str:
    return f"event: {kind}\nid: {number}\ndata: {data}\n\n"


def _bound(address: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for tried in range(PORT, PORT + PORTS_TRIED) if port is None else (port,):
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, tried))
            sock.listen(WAITING)
            return sock
        except OSError as error:
            sock.close()
            reason: Any = error.strerror or error
    where = f"{address}:{port}" if port is not None else f"{address}:{PORT} to {PORT + PORTS_TRIED - 1}"
    raise InvalidInput(
        value=where, reason=f"cannot listen there ({reason})", remedy="choose an address of this machine and a free port"
    )
