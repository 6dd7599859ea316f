"""Turns prompts, messages and parameters into functions that submit them to an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypedDict

from . import _native
from .lora.request import LoRARequest
from .sampling_params import RequestOutputKind, SamplingParams


class TextPrompt(TypedDict):
    prompt: str


class _PromptText(TypedDict, total=False):
    prompt: str


class TokensPrompt(_PromptText):
    prompt_token_ids: list[int]


Prompt = str | list[int] | TextPrompt | TokensPrompt | dict[str, Any]
Message = dict[str, Any]
Submit = Callable[[_native.Queue], "int | None"]


def no_adapters(lora_request: None) -> None:
    if lora_request is not None:
        raise ValueError("lora_request: adapters are for models that generate text")


def split_prompt(prompt: Prompt) -> tuple[str | None, list[int] | None]:
    if isinstance(prompt, str):
        return prompt, None
    if isinstance(prompt, dict):
        fields: dict[str, Any] = dict(prompt)
        if "prompt_token_ids" in fields:
            return fields.get("prompt"), list(fields["prompt_token_ids"])
        if isinstance(fields.get("prompt"), str):
            return fields["prompt"], None
        raise ValueError("a prompt that is a dict has 'prompt' or 'prompt_token_ids'")
    return None, list(prompt)


class Calls:
    """Builds functions that submit prompts and conversations to a queue."""

    def __init__(self, engine: _native.Engine) -> None:
        self.engine = engine
        self._adapters: dict[str, str] = {}  # adapter name -> path it was loaded from
        self.max_model_len = int(engine.facts()["max_model_len"])

    def adapter(self, lora_request: LoRARequest | None) -> dict[str, Any]:
        """Returns the request field that selects this adapter, and loads the adapter if it is not loaded yet."""
        if lora_request is None:
            return {}
        if not isinstance(lora_request, LoRARequest):
            raise ValueError("lora_request must be a LoRARequest")
        name, path = lora_request.name, lora_request.path
        if lora_request.load_inplace or self._adapters.get(name) != path:
            self.engine.load_adapter(name, path)
            self._adapters[name] = path
        return {"model": name}

    def completion(
        self, prompt: Prompt, params: SamplingParams | None, more: dict[str, Any]
    ) -> tuple[str | None, Submit]:
        text, ids = split_prompt(prompt)
        body = (params.body(chat=False) if params else {}) | more
        if params is not None and params.max_tokens is None and "max_tokens" not in more:
            if ids is None:
                ids = self.engine.tokenize(text or "", True)
            room = self.max_model_len - len(ids)
            if room > 0:  # otherwise the engine reports the error
                body["max_tokens"] = room
        packed = json.dumps(body)
        if ids is not None:
            return text, lambda queue: queue.submit_ids(ids, packed)
        return text, lambda queue: queue.submit_text(text or "", packed)

    @staticmethod
    def chat(messages: list[Message], params: SamplingParams | None, more: dict[str, Any]) -> Submit:
        body = (params.body(chat=True) if params else {"max_tokens": 16}) | more
        packed, conversation = json.dumps(body), json.dumps(messages)
        return lambda queue: queue.submit_chat(conversation, packed)


def streams(params: SamplingParams) -> bool:
    """True if partial outputs are streamed. With best_of > n or prompt_logprobs, results are final only at the end."""
    return (
        params.output_kind is not RequestOutputKind.FINAL_ONLY
        and params.prompt_logprobs is None
        and (params.best_of is None or params.best_of == params.n)
    )
