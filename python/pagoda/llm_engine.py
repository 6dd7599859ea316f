"""LLMEngine: vLLM's class for programs with a loop of their own, with add_request() and step(). An LLM has one as
`llm_engine`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from . import _native
from .calls import Calls, Prompt, Submit, streams
from .engine_args import EngineArgs, options_of
from .lora.request import LoRARequest
from .outputs import Answer, RequestOutput
from .sampling_params import RequestOutputKind, SamplingParams
from .tokenizer import Tokenizer

POLL_MS = 100  # the longest delay before Ctrl-C takes effect


@dataclass(frozen=True)
class ModelConfig:
    """The fields of vLLM's `llm.llm_engine.model_config` that programs read."""

    model: str
    max_model_len: int


class LLMEngine:
    """Call `add_request(id, prompt, params)`, then `step()` while `has_unfinished_requests()`. The engine runs on its
    own threads, so step() only waits for the next outputs. Not thread-safe."""

    def __init__(self, model: str, engine: _native.Engine) -> None:
        self._engine = engine
        self._calls = Calls(engine)
        self.model_config = ModelConfig(model, self._calls.max_model_len)
        self._queue: _native.Queue | None = None
        self._news: deque[dict[str, Any]] = deque()  # taken from the queue, but not yet returned by step()
        self._running: dict[int, tuple[Answer, RequestOutputKind]] = {}
        self._waiting: deque[tuple[Answer, RequestOutputKind, Submit]] = deque()  # not yet accepted by the engine

    @classmethod
    def from_engine_args(cls, engine_args: EngineArgs, **_: Any) -> LLMEngine:
        return cls(engine_args.model, _native.Engine(engine_args.model, options_of(engine_args.arguments)))

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams,
        arrival_time: float | None = None,
        lora_request: LoRARequest | None = None,
        tokenization_kwargs: None = None,
        trace_headers: None = None,
        priority: int = 0,
    ) -> str:
        """Submits a request, now or in a later step() if the engine accepts no more requests. Returns `request_id`."""
        if not isinstance(params, SamplingParams):
            raise ValueError("add_request takes SamplingParams; LLM.embed, score, classify and encode make vectors")
        more: dict[str, Any] = {"priority": priority} | self._calls.adapter(lora_request)
        if streams(params):
            more["stream"] = True
        text, submit = self._calls.completion(prompt, params, more)
        answer = Answer(request_id, text, params.n, params.output_kind is RequestOutputKind.DELTA, params.detokenize)
        answer.output.lora_request = lora_request
        self._waiting.append((answer, params.output_kind, submit))
        self._submit()  # raises here if a request parameter is invalid
        return request_id

    def step(self) -> list[RequestOutput]:
        """Returns the new outputs of each request, in the form of its `output_kind`. Empty if no output has arrived yet
        or no request is running."""
        outputs: list[RequestOutput] = []
        self._submit()
        if self._queue is None or not self._running:
            return outputs
        if not self._news:
            self._news.extend(self._queue.next(POLL_MS))
        while self._news:
            news = self._news[0]
            if "message" in news and outputs:
                break  # the next step() raises the error, so that these outputs are not lost
            self._news.popleft()
            known = self._running.get(news["id"])
            if known is None:  # aborted
                continue
            answer, kind = known
            if "message" in news:
                del self._running[news["id"]]
                raise RuntimeError(news["message"])
            output = answer.add(news)
            if news["finished"]:
                del self._running[news["id"]]
            if news["finished"] or kind is not RequestOutputKind.FINAL_ONLY:
                outputs.append(_snapshot(output))
        return outputs

    def abort_request(self, request_ids: str | list[str], internal: bool = False) -> None:
        """Aborts the requests, which produce no further outputs. Unknown ids are ignored."""
        names = {request_ids} if isinstance(request_ids, str) else set(request_ids)
        self._waiting = deque(entry for entry in self._waiting if entry[0].output.request_id not in names)
        for number in [n for n, (answer, _) in self._running.items() if answer.output.request_id in names]:
            del self._running[number]
            if self._queue is not None:
                self._queue.abort(number)
        if not self._running and self._queue is not None:  # any remaining outputs belong to aborted requests
            self._queue.close()
            self._queue = None

    def has_unfinished_requests(self) -> bool:
        return bool(self._running or self._waiting)

    def get_num_unfinished_requests(self) -> int:
        return len(self._running) + len(self._waiting)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def shutdown(self) -> None:
        """Releases the memory now. The object cannot be used afterwards."""
        self._running.clear()
        self._waiting.clear()
        if self._queue is not None:
            self._queue.close()
            self._queue = None
        self._engine.close()

    def _submit(self) -> None:
        if self._waiting and self._queue is None:
            self._queue = _native.Queue(self._engine)
        while self._waiting and self._queue is not None:
            answer, kind, submit = self._waiting[0]
            try:
                number = submit(self._queue)
            except BaseException:
                self._waiting.popleft()
                raise
            if number is None:
                return
            self._waiting.popleft()
            self._running[number] = (answer, kind)


def _snapshot(output: RequestOutput) -> RequestOutput:
    """Returns a copy that later steps do not modify."""
    return replace(output, outputs=[replace(choice, token_ids=list(choice.token_ids)) for choice in output.outputs])
