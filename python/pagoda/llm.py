"""Offline inference with the interface of vLLM's `LLM`: the engine batches all prompts of a call and returns the
outputs in the order of the prompts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from . import _native
from .calls import Calls, Message, Prompt, Submit, no_adapters, split_prompt
from .engine_args import options_of
from .llm_engine import LLMEngine
from .lora.request import LoRARequest
from .outputs import Answer, BeamSearchOutput, BeamSearchSequence, RequestOutput
from .pooling import Call, PoolingParams, PoolingRequestOutput, data_of, probs_of, score_of, vector_of
from .progress import Progress
from .sampling_params import BeamSearchParams, SamplingParams
from .tokenizer import Tokenizer
from .v1.metrics.reader import Metric, read_metrics

POLL_MS = 100  # the longest delay before Ctrl-C takes effect
PAIRS_AT_ONCE = 64  # text pairs per /score call


class LLM:
    """An engine that runs in this process, for batches of prompts.

    `model`: a file, a folder or ORG/NAME; if empty, the default model. The other arguments are engine arguments with
    the names that vLLM uses: LLM("model.gguf", kv_cache_memory_bytes=1 << 30, max_num_seqs=64). The memory is released
    when the object is deleted, or at the end of `with LLM(...) as llm:`."""

    def __init__(self, model: str = "", **engine_args: Any) -> None:
        self._engine = _native.Engine(str(model), options_of(engine_args))
        self._calls = Calls(self._engine)
        self._count = 0
        self.llm_engine = LLMEngine(str(model), self._engine)

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: Any = True,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        priority: list[int] | None = None,
    ) -> list[RequestOutput]:
        """Generates completions for each prompt. `sampling_params`: one object for all prompts, or one per prompt. If
        None, the model's defaults apply."""
        many: list[Prompt] = [prompts] if _is_one(prompts) else list(prompts)  # type: ignore[list-item, arg-type]
        each = _one_each(sampling_params, len(many))
        if priority is not None and len(priority) != len(many):
            raise ValueError("priority must have one number for each prompt")
        work = []
        adapters = _adapter_each(lora_request, len(many))
        for i, (prompt, params, adapter) in enumerate(zip(many, each, adapters)):
            more = self._calls.adapter(adapter)
            if priority is not None:
                more["priority"] = priority[i]
            text, submit = self._calls.completion(prompt, params, more)
            work.append((self._answer(text, params, adapter=adapter), submit))
        return self._generate(work, use_tqdm)

    def chat(
        self,
        messages: list[Message] | Sequence[list[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        use_tqdm: Any = True,
        lora_request: LoRARequest | Sequence[LoRARequest | None] | None = None,
        chat_template: str | None = None,
        chat_template_content_format: str = "auto",
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: list[dict[str, Any]] | None = None,
        chat_template_kwargs: dict[str, Any] | None = None,
    ) -> list[RequestOutput]:
        """Generates the next message of one conversation, or of each conversation in a list. The text is the raw output
        of the model, including any tool calls."""
        if chat_template_content_format not in ("auto", "string", "openai"):
            raise ValueError("chat_template_content_format must be auto, string or openai")
        many: list[list[Message]] = [messages] if messages and isinstance(messages[0], dict) else list(messages)  # type: ignore[list-item, arg-type]
        more: dict[str, Any] = {
            "add_generation_prompt": add_generation_prompt,
            "continue_final_message": continue_final_message,
        }
        for name, value in (
            ("chat_template", chat_template),
            ("tools", tools),
            ("chat_template_kwargs", chat_template_kwargs),
        ):
            if value is not None:
                more[name] = value
        work = []
        adapters = _adapter_each(lora_request, len(many))
        for conversation, params, adapter in zip(many, _one_each(sampling_params, len(many)), adapters):
            answer = self._answer(None, params, adapter=adapter)
            work.append((answer, self._calls.chat(conversation, params, more | self._calls.adapter(adapter))))
        outputs = self._generate(work, use_tqdm)
        for output in outputs:
            output.prompt = self._engine.detokenize(output.prompt_token_ids, False)
        return outputs

    def beam_search(
        self,
        prompts: Sequence[Prompt],
        params: BeamSearchParams,
        lora_request: LoRARequest | None = None,
        use_tqdm: Any = False,
    ) -> list[BeamSearchOutput]:
        """Returns the `beam_width` best sequences of each prompt, best first. Their `logprobs` are empty."""
        work = []
        for prompt in prompts:
            text, submit = self._calls.completion(prompt, None, params.body() | self._calls.adapter(lora_request))
            work.append((self._answer(text, None, params.beam_width), submit))
        return [self._beams(output) for output in self._generate(work, use_tqdm, cumulative=True)]

    def _beams(self, output: RequestOutput) -> BeamSearchOutput:
        sequences = []
        for choice in output.outputs:
            tokens = output.prompt_token_ids + choice.token_ids
            sequences.append(
                BeamSearchSequence(
                    tokens=tokens,
                    logprobs=[],
                    text=self._engine.detokenize(tokens, True),
                    cum_logprob=choice.cumulative_logprob or 0.0,
                    finish_reason=choice.finish_reason,
                    stop_reason=choice.stop_reason,
                )
            )
        return BeamSearchOutput(sequences)

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: Any = True,
        pooling_params: PoolingParams | None = None,
        lora_request: None = None,
    ) -> list[PoolingRequestOutput]:
        """Returns an embedding for each prompt. Needs an embedding model, or an engine created with
        runner="pooling"."""
        no_adapters(lora_request)
        return self._pool("/v1/embeddings", vector_of, prompts, use_tqdm, pooling_params, encoding_format="base64")

    def encode(
        self,
        prompts: Prompt | Sequence[Prompt],
        pooling_params: PoolingParams | None = None,
        *,
        use_tqdm: Any = True,
        lora_request: None = None,
        pooling_task: str | None = None,
    ) -> list[PoolingRequestOutput]:
        """Returns the pooled output of the model for each prompt as a list of numbers. `pooling_task`: "embed" or
        "classify"; must be the task of the model."""
        no_adapters(lora_request)
        task = {} if pooling_task is None else {"task": pooling_task}
        return self._pool("/pooling", data_of, prompts, use_tqdm, pooling_params, encoding_format="base64", **task)

    def classify(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        use_tqdm: Any = True,
        pooling_params: PoolingParams | None = None,
        lora_request: None = None,
    ) -> list[PoolingRequestOutput]:
        """Returns the class probabilities for each prompt."""
        no_adapters(lora_request)
        return self._pool("/classify", probs_of, prompts, use_tqdm, pooling_params)

    def score(
        self,
        data_1: str | Sequence[str],
        data_2: str | Sequence[str],
        /,
        *,
        use_tqdm: Any = True,
        pooling_params: PoolingParams | None = None,
        lora_request: None = None,
    ) -> list[PoolingRequestOutput]:
        """Returns a similarity score for each text of `data_2`, paired with the text of `data_1` at the same index.
        `data_1` may also be a single text, which is paired with every text of `data_2`."""
        no_adapters(lora_request)
        first = [data_1] if isinstance(data_1, str) else list(data_1)
        second = [data_2] if isinstance(data_2, str) else list(data_2)
        if len(first) != 1 and len(first) != len(second):
            raise ValueError("data_1 must be one text, or as many as data_2 has")
        more = pooling_params.body() if pooling_params else {}
        work = []
        for at in range(0, len(second), PAIRS_AT_ONCE):
            texts = second[at : at + PAIRS_AT_ONCE]
            body = {"text_1": first if len(first) == 1 else first[at : at + PAIRS_AT_ONCE], "text_2": texts, **more}
            outputs = [self._pooled([]) for _ in texts]
            work.append((Call(outputs, score_of), _submit_call("/score", body)))
        self._run(work, use_tqdm)
        return [output for call, _ in work for output in call.outputs]

    def _pool(
        self,
        path: str,
        kind: Callable[[dict[str, Any]], Any],
        prompts: Prompt | Sequence[Prompt],
        use_tqdm: Any,
        params: PoolingParams | None,
        **fields: Any,
    ) -> list[PoolingRequestOutput]:
        many: list[Prompt] = [prompts] if _is_one(prompts) else list(prompts)  # type: ignore[list-item, arg-type]
        more = (params.body() if params else {}) | fields
        work = []
        for prompt in many:
            text, ids = split_prompt(prompt)
            known = ids
            if known is None:
                known = [] if "truncate_prompt_tokens" in more else self._engine.tokenize(text or "", True)
            body = {"input": text if ids is None else ids, **more}
            work.append((Call([self._pooled(known)], kind), _submit_call(path, body)))
        self._run(work, use_tqdm)
        return [output for call, _ in work for output in call.outputs]

    def _pooled(self, prompt_token_ids: list[int]) -> PoolingRequestOutput:
        self._count += 1
        return PoolingRequestOutput(str(self._count - 1), None, prompt_token_ids)

    def get_tokenizer(self) -> Tokenizer:
        return Tokenizer(self._engine)

    def get_default_sampling_params(self) -> SamplingParams:
        """Returns the parameters of a request that sets none. None means the value in the model's
        generation_config.json."""
        return SamplingParams(temperature=None, top_p=None, top_k=None, min_p=None, repetition_penalty=None)

    def facts(self) -> dict[str, Any]:
        """Returns the properties that do not change: model, scheduler mode, KV manager, limits and sizes."""
        return self._engine.facts()

    def stats(self) -> dict[str, int]:
        """Returns the current use of KV cache blocks and slots, and totals since the start."""
        return self._engine.stats()

    @property
    def scheduler(self) -> str:
        return str(self.facts()["scheduler"])

    @property
    def kv_manager(self) -> str:
        return str(self.facts()["kv_manager"])

    def get_metrics(self) -> list[Metric]:
        """Returns the counters, gauges and histograms of the engine, as GET /metrics of a server reports them."""
        return read_metrics(self._engine.metrics())

    def reset_prefix_cache(self, reset_running_requests: bool = False, reset_connector: bool = False) -> bool:
        """Clears the prefix cache: later prompts find no block that is cached now. Running requests keep their K/V.
        Both arguments are accepted for compatibility and ignored; there is no connector."""
        self._engine.reset_prefix_cache()
        return True

    def sleep(self, level: int = 1, mode: str = "abort") -> None:
        """Releases the memory of the weights and the KV cache until wake_up(). Level 0 only pauses computation.
        `mode`: how running requests are handled: "abort", "wait" or "keep"."""
        self._engine.sleep(level, mode)

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Wakes the parts named in `tags`: "weights", "kv_cache", "scheduling"; None means all. The engine computes
        again once every part is awake."""
        self._engine.wake_up(",".join(tags or []))

    def shutdown(self) -> None:
        """Releases the memory now. The object cannot be used afterwards."""
        self._engine.close()

    def _answer(
        self,
        prompt: str | None,
        params: SamplingParams | None,
        num_choices: int = 1,
        adapter: LoRARequest | None = None,
    ) -> Answer:
        if params is None:
            answer = Answer(str(self._count), prompt, num_choices)
        else:
            answer = Answer(str(self._count), prompt, params.n, detokenize=params.detokenize)
        answer.output.lora_request = adapter
        self._count += 1
        return answer

    def _generate(
        self, work: list[tuple[Answer, Submit]], use_tqdm: Any, cumulative: bool = False
    ) -> list[RequestOutput]:
        self._run(work, use_tqdm, cumulative)
        return [answer.output for answer, _ in work]

    def _run(self, work: Sequence[tuple[Answer | Call, Submit]], use_tqdm: Any, cumulative: bool = False) -> None:
        """Submits requests as long as the engine accepts them and collects outputs until all requests have finished.
        Leaving this function by an exception, including Ctrl-C, aborts the requests that still run."""
        if self._engine.is_sleeping():
            raise RuntimeError("the engine sleeps: call wake_up() first")
        running: dict[int, Answer | Call] = {}
        waiting = list(reversed(work))
        queue = _native.Queue(self._engine)
        try:
            with Progress(use_tqdm, len(work)) as progress:
                while waiting or running:
                    while waiting:
                        number = waiting[-1][1](queue)
                        if number is None:
                            break
                        running[number] = waiting.pop()[0]
                    for news in queue.next(POLL_MS):
                        if "message" in news:
                            raise RuntimeError(news["message"])
                        answer = running.pop(news["id"])
                        answer.add(news)
                        if cumulative and isinstance(answer, Answer):
                            for choice in news["choices"]:
                                answer.output.outputs[choice["index"]].cumulative_logprob = choice["cumulative_logprob"]
                        progress.step()
        finally:
            queue.close()


def _submit_call(path: str, body: dict[str, Any]) -> Submit:
    packed = json.dumps(body)
    return lambda queue: queue.submit_call(path, packed)


def _is_one(prompts: Any) -> bool:
    return isinstance(prompts, (str, dict)) or (bool(prompts) and isinstance(prompts[0], int))


def _adapter_each(
    lora_request: LoRARequest | Sequence[LoRARequest | None] | None, count: int
) -> list[LoRARequest | None]:
    if not isinstance(lora_request, (list, tuple)):
        return [lora_request] * count  # type: ignore[list-item]
    if len(lora_request) != count:
        raise ValueError("lora_request must be one for all, or one for each prompt")
    return list(lora_request)


def _one_each(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams | None]:
    if params is None or isinstance(params, SamplingParams):
        return [params] * count
    if len(params) != count:
        raise ValueError("sampling_params must be one, or one for each prompt")
    return list(params)
