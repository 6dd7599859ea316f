"""Sampling parameters with vLLM's names, meanings and defaults. The range of each value is checked here, as in vLLM;
combinations of values are checked by the engine."""

from __future__ import annotations

import copy
import enum
from dataclasses import dataclass, field, fields
from typing import Any


def _within(value: float | None, low: float | None, high: float | None) -> bool:
    """True if `value` lies in the inclusive range, or is None: the model's default, or off."""
    return value is None or ((low is None or value >= low) and (high is None or value <= high))


def _above(value: float | None, low: float) -> bool:
    return value is None or value > low


class RequestOutputKind(enum.Enum):
    """Content of each output of a stream."""

    CUMULATIVE = 0  # everything generated so far
    DELTA = 1  # only the new part
    FINAL_ONLY = 2  # a single output at the end


@dataclass
class StructuredOutputsParams:
    """The constraint on the output. Set exactly one of json, regex, choice, grammar, json_object and structural_tag."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: str | dict[str, Any] | None = None
    disable_any_whitespace: bool = False  # no whitespace between the parts of a JSON text
    whitespace_pattern: str | None = None  # must allow no whitespace, and then has the effect of the field above
    disable_fallback: bool = False  # ignored: there is no fallback
    disable_additional_properties: bool = False  # refused: the schema itself sets additionalProperties

    def __post_init__(self) -> None:
        if self.disable_additional_properties:
            raise ValueError("disable_additional_properties: the schema says it, by additionalProperties")

    def body(self) -> dict[str, Any]:
        return {
            f.name: value
            for f in fields(self)
            if f.name != "disable_fallback" and (value := getattr(self, f.name)) not in (None, False)
        }


@dataclass
class SamplingParams:
    """Sampling parameters of a request. If a field is None, the value of the model's generation_config.json applies,
    or the feature is off."""

    n: int = 1
    best_of: int | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    repetition_penalty: float | None = 1.0
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    top_k: int | None = 0
    min_p: float | None = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16  # None: up to max_model_len
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    truncate_prompt_tokens: int | None = None
    output_kind: RequestOutputKind = RequestOutputKind.CUMULATIVE
    structured_outputs: StructuredOutputsParams | None = None
    logit_bias: dict[int, float] | dict[str, float] | None = None
    allowed_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    extra_args: dict[str, Any] | None = field(default=None)  # extra fields of the request body, passed as given
    logits_processors: None = None  # refused: the engine runs no Python code in a step

    def __post_init__(self) -> None:
        if self.logits_processors is not None:
            raise ValueError(
                "logits_processors: not supported; logit_bias, allowed_token_ids, bad_words and structured_outputs are"
            )
        for name, value, good, rule in (
            ("n", self.n, self.n >= 1, "at least 1"),
            ("presence_penalty", self.presence_penalty, _within(self.presence_penalty, -2, 2), "from -2 to 2"),
            ("frequency_penalty", self.frequency_penalty, _within(self.frequency_penalty, -2, 2), "from -2 to 2"),
            ("repetition_penalty", self.repetition_penalty, _above(self.repetition_penalty, 0), "above 0"),
            ("temperature", self.temperature, _within(self.temperature, 0, None), "at least 0"),
            ("top_p", self.top_p, _above(self.top_p, 0) and _within(self.top_p, None, 1), "above 0 and at most 1"),
            ("top_k", self.top_k, _within(self.top_k, -1, None), "0 or -1 (all), or at least 1"),
            ("min_p", self.min_p, _within(self.min_p, 0, 1), "from 0 to 1"),
            ("max_tokens", self.max_tokens, _within(self.max_tokens, 1, None), "at least 1"),
            ("min_tokens", self.min_tokens, _within(self.min_tokens, 0, self.max_tokens), "from 0 to max_tokens"),
            ("logprobs", self.logprobs, _within(self.logprobs, 0, None), "at least 0"),
            ("prompt_logprobs", self.prompt_logprobs, _within(self.prompt_logprobs, 0, None), "at least 0"),
            (
                "truncate_prompt_tokens",
                self.truncate_prompt_tokens,
                _within(self.truncate_prompt_tokens, -1, None),
                "-1 or at least 1",
            ),
        ):
            if not good:
                raise ValueError(f"{name} must be {rule}, got {value}")
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if "" in stops:
            raise ValueError("stop cannot contain an empty string")
        if stops and not self.detokenize:
            raise ValueError("stop strings need detokenize=True")

    @staticmethod
    def from_optional(**given: Any) -> SamplingParams:
        """Builds the parameters from the given values; None means the default."""
        return SamplingParams(**{name: value for name, value in given.items() if value is not None})

    def clone(self) -> SamplingParams:
        return copy.deepcopy(self)

    def body(self, *, chat: bool) -> dict[str, Any]:
        """Returns the fields of the request body."""
        ours = {"output_kind", "detokenize", "structured_outputs", "extra_args", "logprobs", "logits_processors"}
        body = {
            f.name: value for f in fields(self) if f.name not in ours and (value := getattr(self, f.name)) is not None
        }
        if self.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": self.logprobs} if chat else {"logprobs": self.logprobs}
        if self.structured_outputs is not None:
            body["structured_outputs"] = self.structured_outputs.body()
        if self.stop is not None:
            body["stop"] = [self.stop] if isinstance(self.stop, str) else list(self.stop)
        return body | (self.extra_args or {})


@dataclass
class BeamSearchParams:
    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    temperature: float = 0.0
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "use_beam_search": True,
            "n": self.beam_width,
            "best_of": self.beam_width,
            "max_tokens": self.max_tokens,
            "ignore_eos": self.ignore_eos,
            "length_penalty": self.length_penalty,
            "include_stop_str_in_output": self.include_stop_str_in_output,
        }
        if self.temperature != 0:
            body["temperature"] = self.temperature
        return body
