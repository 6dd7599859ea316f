"""AsyncLLM: concurrent requests from one or more asyncio event loops, each an asynchronous stream of outputs."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from . import _native
from .calls import Calls, Message, Prompt, Submit, streams
from .engine_args import EngineArgs, options_of
from .outputs import Answer, RequestOutput
from .sampling_params import RequestOutputKind, SamplingParams
from .tokenizer import Tokenizer

POLL_MS = 200
BUSY_S = 0.02  # delay between retries while too many requests wait


class _Stream:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.loop = asyncio.get_running_loop()
        self.news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.number: int | None = None  # the id of the request; set once the engine has accepted it
        self.gone = False  # True after the consumer has left

    def put(self, news: dict[str, Any]) -> None:
        _put_all(self.loop, [(self, news)])


def _put_all(loop: asyncio.AbstractEventLoop, batch: list[tuple[_Stream, dict[str, Any]]]) -> None:
    """Delivers outputs to streams of one event loop and wakes the loop once. May be called from any thread."""

    def put() -> None:
        for stream, news in batch:
            stream.news.put_nowait(news)

    try:
        loop.call_soon_threadsafe(put)
    except RuntimeError:
        pass  # the loop is closed, so no consumer waits


class AsyncLLM:
    """An engine for asyncio programs: `async for output in engine.generate(prompt, SamplingParams(...), "id")`.
    Leaving the `async for` loop aborts the request."""

    def __init__(self, model: str = "", **engine_args: Any) -> None:
        self._engine = _native.Engine(str(model), options_of(engine_args))
        self._calls = Calls(self._engine)
        self._queue = _native.Queue(self._engine)
        self._lock = threading.Lock()  # guards the fields below
        self._streams: dict[int, _Stream] = {}
        self._submitting = 0
        # Outputs by request id that arrived while a submission was in progress, before that id was known here.
        self._early: dict[int, list[dict[str, Any]]] = {}
        self._names: dict[str, int] = {}
        self._ids = itertools.count()
        self._ended = threading.Event()
        self._reader = threading.Thread(target=self._read, name="pagoda-outputs", daemon=True)
        self._reader.start()

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs) -> AsyncLLM:
        return cls(engine_args.model, **engine_args.arguments)

    async def generate(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int = 0,
    ) -> AsyncIterator[RequestOutput]:
        """Generates completions for a prompt. Yields outputs until the request has finished, in the form of
        `sampling_params.output_kind`. Raises RuntimeError if the request fails."""
        params = sampling_params or SamplingParams()
        text, submit = self._calls.completion(prompt, params, self._more(params, priority))
        async for output in self._stream(submit, text, params, request_id):
            yield output

    async def chat(
        self,
        messages: list[Message],
        sampling_params: SamplingParams | None = None,
        request_id: str | None = None,
        *,
        priority: int = 0,
        **fields: Any,
    ) -> AsyncIterator[RequestOutput]:
        """Generates the next message of a conversation, like generate(). `fields`: other fields of a chat completion
        request, such as tools, add_generation_prompt and chat_template_kwargs."""
        params = sampling_params or SamplingParams()
        submit = self._calls.chat(messages, params, self._more(params, priority) | fields)
        async for output in self._stream(submit, None, params, request_id):
            yield output

    async def abort(self, request_id: str) -> None:
        """Aborts a request. Its stream ends without a finished output."""
        with self._lock:
            number = self._names.get(request_id)
            stream = self._streams.get(number) if number is not None else None
        if number is not None and self._queue.abort(number) and stream is not None:
            stream.put({"aborted": True})

    async def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def facts(self) -> dict[str, Any]:
        return self._engine.facts()

    async def stats(self) -> dict[str, int]:
        return await asyncio.to_thread(self._engine.stats)

    async def check_health(self) -> None:
        """Raises RuntimeError if the engine has stopped."""
        await self.stats()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set() and self._reader.is_alive()

    @property
    def errored(self) -> bool:
        return not self._ended.is_set() and not self._reader.is_alive()

    async def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Releases the memory of the weights and the KV cache until wake_up(). Requests submitted meanwhile wait."""
        await asyncio.to_thread(self._engine.sleep, level, mode)

    async def wake_up(self, tags: list[str] | None = None) -> None:
        await asyncio.to_thread(self._engine.wake_up, ",".join(tags or []))

    async def is_sleeping(self) -> bool:
        return self._engine.is_sleeping()

    async def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Clears the prefix cache: later prompts find no block that is cached now."""
        await asyncio.to_thread(self._engine.reset_prefix_cache)
        return True

    def shutdown(self) -> None:
        if self._ended.is_set():
            return
        with self._lock:
            self._ended.set()
        self._reader.join()
        while True:
            with self._lock:
                streams = list(self._streams.values())
                if self._submitting == 0:
                    break
            time.sleep(BUSY_S)
        for stream in streams:
            stream.put({"aborted": True})
        self._queue.close()
        self._engine.close()

    @staticmethod
    def _more(params: SamplingParams, priority: int) -> dict[str, Any]:
        more: dict[str, Any] = {"priority": priority}
        if streams(params):
            more["stream"] = True
        return more

    async def _stream(
        self, submit: Submit, prompt: str | None, params: SamplingParams, request_id: str | None
    ) -> AsyncIterator[RequestOutput]:
        name = request_id if request_id is not None else f"pagoda-{next(self._ids)}"
        delta = params.output_kind is RequestOutputKind.DELTA
        stream = _Stream(Answer(name, prompt, params.n, delta, params.detokenize))
        try:
            # On a thread: tokenizing and grammar compilation take time and must not block the event loop.
            while not await asyncio.to_thread(self._submit, submit, stream, name):
                await asyncio.sleep(BUSY_S)
            while True:
                news = await stream.news.get()
                if "aborted" in news:
                    return
                if "message" in news:
                    raise RuntimeError(news["message"])
                yield stream.answer.add(news)
                if news["finished"]:
                    return
        finally:
            with self._lock:
                stream.gone = True
                number = stream.number
                if number is not None:
                    self._streams.pop(number, None)
                if self._names.get(name) == number:
                    self._names.pop(name, None)
            if number is not None and not self._ended.is_set():
                self._queue.abort(number)

    def _submit(self, submit: Submit, stream: _Stream, name: str) -> bool:
        """Returns False if too many requests wait. Runs on a thread and may continue after the stream's consumer has
        left."""
        with self._lock:
            if self._ended.is_set():
                raise RuntimeError("the engine has been shut down")
            self._submitting += 1
        number: int | None = None
        try:
            number = submit(self._queue)
        finally:
            with self._lock:
                self._submitting -= 1
                if number is not None and not stream.gone:
                    stream.number = number
                    self._streams[number] = stream
                    self._names[name] = number
                    for news in self._early.pop(number, []):
                        stream.put(news)
                if self._submitting == 0:
                    self._early.clear()
        if number is not None and stream.gone and stream.number is None:
            self._queue.abort(number)
        return number is not None

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                batch = self._queue.next(POLL_MS)
            except RuntimeError as error:  # the engine has stopped: pass the error to all waiting streams
                with self._lock:
                    for stream in self._streams.values():
                        stream.put({"message": str(error)})
                return
            by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Stream, dict[str, Any]]]] = {}
            with self._lock:
                for news in batch:
                    known = self._streams.get(news["id"])
                    if known is not None:
                        by_loop.setdefault(known.loop, []).append((known, news))
                    elif self._submitting > 0:
                        self._early.setdefault(news["id"], []).append(news)
                for loop, own in by_loop.items():
                    _put_all(loop, own)


AsyncLLMEngine = AsyncLLM
