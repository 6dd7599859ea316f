"""Pagoda under Ray Serve. Each replica starts its own `pagoda serve` process and forwards requests to it unchanged.
Ray handles placement, routing and scaling; deploy/ray/serve.yaml is an example in Ray's own schema. Needs
pip install 'ray[serve]' aiohttp.

    serve run deploy/ray/serve.yaml
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

START_TIMEOUT_S = 1800  # a model may have to be pulled first
STOP_TIMEOUT_S = 60
LAST_WORDS_S = 0.1  # time for open requests to receive the error after the server has died
# Hop-by-hop headers, and those that Ray sets itself.
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "trailer", "upgrade"}
LOST = {"error": {"message": "The replica has gone.", "type": "server_error", "param": None, "code": "replica_lost"}}


def program_path() -> str:
    """Returns the `pagoda` program beside this Python interpreter, or else the one on the PATH."""
    beside = pathlib.Path(sys.executable).with_name("pagoda")
    found = str(beside) if beside.exists() else shutil.which("pagoda")
    if found is None:
        raise FileNotFoundError("the program `pagoda` is not on the PATH: pip install pagoda-llm")
    return found


def end_with_parent() -> None:
    """Called in the child process: the server is terminated if its replica is killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def command_line(program: str, model: str, flags: dict[str, Any], socket: str) -> list[str]:
    """Returns the command line of the server. Flag names may use - or _, switches are true or false, and a list repeats
    its flag."""
    words = [program, "serve", *([model] if model else []), "--uds", socket]
    for name, value in flags.items():
        name = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{name}", json.dumps(one) if isinstance(one, dict) else str(one)]
    return words


class Replica:
    def __init__(self, model: str, flags: dict[str, Any], program: str | None) -> None:
        self.folder = tempfile.mkdtemp(prefix="pagoda-ray-")
        self.socket = f"{self.folder}/socket"
        self.process = subprocess.Popen(
            command_line(program or program_path(), model, flags, self.socket),
            stdout=subprocess.DEVNULL,
            preexec_fn=end_with_parent,
        )
        self.session: aiohttp.ClientSession | None = None
        self.ready = False
        self.watcher: asyncio.Task[None] | None = None

    async def go_with_server(self) -> None:
        """Exits the replica when its server has ended, so that Ray stops routing to it at once, not at the next health
        check."""
        while self.process.poll() is None:
            await asyncio.sleep(0.02)
        await asyncio.sleep(LAST_WORDS_S)
        os._exit(1)

    def client(self) -> aiohttp.ClientSession:
        if self.session is None:  # created here because it belongs to the serving event loop
            self.watcher = asyncio.get_running_loop().create_task(self.go_with_server())
            self.session = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(self.socket, limit=0),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self.session

    async def wait_until_ready(self) -> None:
        for _ in range(START_TIMEOUT_S * 10):
            if self.process.poll() is not None:
                raise RuntimeError(f"pagoda serve has ended with exit code {self.process.returncode}")
            try:
                async with self.client().get("http://pagoda/health") as answer:
                    if answer.status == 200:
                        self.ready = True
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
        raise TimeoutError("pagoda serve is not ready")

    async def check_health(self) -> None:
        """Called periodically by Ray, which replaces the replica if this raises an exception."""
        if not self.ready:
            await self.wait_until_ready()
        if self.process.poll() is not None:
            raise RuntimeError(f"pagoda serve has ended with exit code {self.process.returncode}")
        async with self.client().get("http://pagoda/health", timeout=aiohttp.ClientTimeout(total=10)) as answer:
            if answer.status != 200:
                raise RuntimeError(f"/health says {answer.status}")

    async def __call__(self, request: Request) -> Response:
        if not self.ready:
            await self.wait_until_ready()
        headers = {name: value for name, value in request.headers.items() if name not in HOP_HEADERS}
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        try:
            answer = await self.client().request(
                request.method,
                f"http://pagoda{target}",
                headers=headers,
                data=await request.body(),
                allow_redirects=False,
            )
            back = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_HEADERS}
            kind = answer.content_type
            if kind not in ("text/event-stream", "application/x-ndjson"):
                return Response(await answer.read(), answer.status, back)
        except aiohttp.ClientError:
            return Response(json.dumps(LOST), 503, media_type="application/json")
        return StreamingResponse(self.pieces(answer, kind), answer.status, back)

    @staticmethod
    async def pieces(answer: aiohttp.ClientResponse, kind: str) -> AsyncIterator[bytes]:
        """Yields the chunks of a streamed response. A broken stream ends with an error event, so that it cannot be
        mistaken for a complete one."""
        try:
            async for piece in answer.content.iter_any():
                yield piece
        except aiohttp.ClientError:
            yield (f"data: {json.dumps(LOST)}\n\n" if kind == "text/event-stream" else json.dumps(LOST) + "\n").encode()
        finally:
            answer.close()

    def __del__(self) -> None:
        process = getattr(self, "process", None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def build(args: dict[str, Any]) -> Any:
    """Builds the application from the `args` of the configuration file: {model, flags, program}."""
    unknown = set(args) - {"model", "flags", "program"}
    if unknown:
        raise ValueError(f"args are model, flags and program, not {', '.join(sorted(unknown))}")
    deployment = serve.deployment(name="Pagoda", max_ongoing_requests=64, health_check_period_s=5)(Replica)
    return deployment.bind(args.get("model", ""), args.get("flags") or {}, args.get("program"))
