"""Embeddings, scores and classes: parameters and outputs with vLLM's names, over the pooling routes of the server."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PoolingParams:
    """Parameters of a pooling request. If a field is None, the model's default applies."""

    dimensions: int | None = None
    use_activation: bool | None = None  # whether vectors are normalised
    truncate_prompt_tokens: int | None = None  # -1: truncate to max_model_len

    def body(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass
class EmbeddingOutput:
    embedding: list[float]

    @property
    def hidden_size(self) -> int:
        return len(self.embedding)


@dataclass
class ClassificationOutput:
    probs: list[float]

    @property
    def num_classes(self) -> int:
        return len(self.probs)


@dataclass
class ScoringOutput:
    score: float


@dataclass
class PoolingOutput:
    data: list[float]


@dataclass
class PoolingRequestOutput:
    """`outputs` is an EmbeddingOutput, ClassificationOutput, ScoringOutput or PoolingOutput. `prompt_token_ids` is
    empty for pairs of texts and for texts with truncate_prompt_tokens, which the engine tokenizes."""

    request_id: str
    outputs: Any
    prompt_token_ids: list[int] = field(default_factory=list)
    num_cached_tokens: int = 0
    finished: bool = True


EmbeddingRequestOutput = ClassificationRequestOutput = ScoringRequestOutput = PoolingRequestOutput


def floats(text: str) -> list[float]:
    values = array("f")
    values.frombytes(base64.b64decode(text))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def vector_of(item: dict[str, Any]) -> EmbeddingOutput:
    return EmbeddingOutput(floats(item["embedding"]))


def data_of(item: dict[str, Any]) -> PoolingOutput:
    return PoolingOutput(floats(item["data"]))


def probs_of(item: dict[str, Any]) -> ClassificationOutput:
    return ClassificationOutput(item["probs"])


def score_of(item: dict[str, Any]) -> ScoringOutput:
    return ScoringOutput(item["score"])


class Call:
    """One call with one output per item of its response."""

    def __init__(self, outputs: list[PoolingRequestOutput], kind: Callable[[dict[str, Any]], Any]) -> None:
        self.outputs, self.kind = outputs, kind

    def add(self, news: dict[str, Any]) -> None:
        answer = news["body"]
        cached = (answer["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        for output, item in zip(self.outputs, answer["data"], strict=True):
            output.outputs = self.kind(item)
            output.num_cached_tokens = cached if len(self.outputs) == 1 else 0
