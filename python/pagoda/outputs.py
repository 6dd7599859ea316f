"""Output classes of requests, with the names that vLLM uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .lora.request import LoRARequest
from .pooling import (
    ClassificationOutput,
    ClassificationRequestOutput,
    EmbeddingOutput,
    EmbeddingRequestOutput,
    PoolingOutput,
    PoolingRequestOutput,
    ScoringOutput,
    ScoringRequestOutput,
)

__all__ = [
    "BeamSearchOutput",
    "BeamSearchSequence",
    "ClassificationOutput",
    "ClassificationRequestOutput",
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "Logprob",
    "PoolingOutput",
    "PoolingRequestOutput",
    "RequestOutput",
    "ScoringOutput",
    "ScoringRequestOutput",
]

# (token id, rank, log-probability, text) of the candidates at one position, the actual token first. A log-probability
# of None means minus infinity.
Position = list[tuple[int, int, "float | None", str]]
MINUS_INFINITY = float("-inf")


@dataclass(slots=True)
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


def logprobs_of(positions: list[Position] | None) -> list[dict[int, Logprob]] | None:
    if positions is None:
        return None
    return [
        {id: Logprob(MINUS_INFINITY if value is None else value, rank, text) for id, rank, value, text in position}
        for position in positions
    ]


@dataclass
class CompletionOutput:
    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    cumulative_logprob: float | None = None  # None unless log-probabilities were requested
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    lora_request: None = None

    def finished(self) -> bool:
        return self.finish_reason is not None


@dataclass
class RequestOutput:
    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool
    metrics: None = None
    lora_request: LoRARequest | None = None
    num_cached_tokens: int | None = None
    encoder_prompt: None = None
    encoder_prompt_token_ids: None = None
    kv_transfer_params: None = None


@dataclass
class BeamSearchSequence:
    tokens: list[int]  # prompt and output
    logprobs: list[dict[int, Logprob]]  # one dict per output token
    text: str | None = None
    cum_logprob: float = 0.0
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class BeamSearchOutput:
    sequences: list[BeamSearchSequence]  # best first


class Answer:
    """Accumulates the output of one request."""

    def __init__(
        self, request_id: str, prompt: str | None, num_choices: int, delta: bool = False, detokenize: bool = True
    ) -> None:
        self.output = RequestOutput(
            request_id, prompt, [], None, [CompletionOutput(i) for i in range(num_choices)], False
        )
        self.delta = delta
        self.detokenize = detokenize

    def add(self, news: dict[str, Any]) -> RequestOutput:
        """Adds an output of the engine and returns the RequestOutput, which is the same object each time. With `delta`,
        its `outputs` hold only the new part."""
        out = self.output
        if "prompt_ids" in news:
            out.prompt_token_ids = news["prompt_ids"]
        out.num_cached_tokens = news["num_cached_tokens"]
        out.finished = news["finished"]
        if (prompt := logprobs_of(news.get("prompt_logprobs"))) is not None:
            out.prompt_logprobs = [position or None for position in prompt]
        if self.delta:
            out.outputs = [CompletionOutput(said["index"]) for said in news["choices"]]
        for place, said in enumerate(news["choices"]):
            choice = out.outputs[place if self.delta else said["index"]]
            if self.detokenize:
                choice.text += said["text"]
            choice.token_ids += said["ids"]
            if (positions := logprobs_of(said.get("logprobs"))) is not None:
                choice.logprobs = (choice.logprobs or []) + positions
                choice.cumulative_logprob = said.get("cumulative_logprob", MINUS_INFINITY)
            choice.finish_reason = said.get("finish_reason")
            choice.stop_reason = said.get("stop_string", said.get("stop_token"))
        return out
