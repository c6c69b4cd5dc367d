"""`inspector web`: the browser's screens in a web browser, served by textual-serve to this machine alone."""

from __future__ import annotations

import secrets
import shlex
import socket
from typing import TYPE_CHECKING, NoReturn

import click

from inspector.cli.fleet import catalogue_at
from inspector.cli.terminal import say
from inspector.model.problem import InspectorError
from inspector.process import own_command

if TYPE_CHECKING:
    from aiohttp import web as aiohttp_web

HOST = "127.0.0.1"


@click.command()
@click.argument("path", type=click.Path(), required=False)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]"
)
def web(path: str | None, port: int) -> None:
    """The same screens in a web browser: prints an address that only this machine reaches.

    The address holds a token; who knows it can do what you can on these screens. Over SSH, forward the port:
    ssh -L 8000:127.0.0.1:8000 HOST, and use --port 8000 there.
    """
    if path is not None:
        from inspector.readers.locate import find_runs

        # What cannot be opened is said here, not in a page; it is asked as `open` asks.
        if catalogue_at(path) is None:
            find_runs(path)
    _serve(own_command(*(("open", "--", path) if path is not None else ())), port)


def _serve(command: list[str], port: int) -> NoReturn:
    try:
        from textual_serve.server import Server
    except ImportError:
        raise InspectorError(
            "inspector web needs textual-serve: pip install 'inductor-inspector[web]'"
        ) from None
    from aiohttp import web as aiohttp_web

    port = _free_port(port)
    token = secrets.token_urlsafe(24)

    class Local(Server):
        """Everything lies below the token, so that without it there is nothing to find."""

        async def on_startup(self, _app: aiohttp_web.Application) -> None:
            """Says nothing: it does not listen yet."""

        def serve(self, debug: bool = False) -> None:  # noqa: ARG002
            """Until ctrl+c; without a log, whose lines would hold the token."""

            def announce(_text: str) -> None:
                say(f"http://{HOST}:{port}/{token}/")
                say("ctrl+c ends it")

            aiohttp_web.run_app(self._make_app(), host=HOST, port=port, print=announce, access_log=None)

        async def _make_app(self) -> aiohttp_web.Application:
            inner = await super()._make_app()
            outer = aiohttp_web.Application()
            outer.add_subapp(f"/{token}", inner)
            outer.on_response_prepare.append(_from_here_only)
            return outer

    async def _from_here_only(_request: aiohttp_web.Request, response: aiohttp_web.StreamResponse) -> None:
        """The page fetches nothing from elsewhere, and tells nobody its address."""
        response.headers["Content-Security-Policy"] = (
            "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self' data:; connect-src 'self' ws://{HOST}:{port}; frame-ancestors 'none'"
        )
        response.headers["Referrer-Policy"] = "no-referrer"

    Local(shlex.join(command), host=HOST, port=port, title="inspector").serve()
    raise SystemExit(0)


def _free_port(port: int) -> int:
    """`port`, or a free one for 0."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InspectorError(
                f"port {port} cannot be used: {error.strerror}; try another --port"
            ) from None
        return int(probe.getsockname()[1])
