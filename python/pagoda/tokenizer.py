"""The engine's tokenizer, by the names that transformers has for it."""
from __future__ import annotations

import json
from typing import Any

from . import _native


class Tokenizer:
    def __init__(self, engine: _native.Engine) -> None:
        self._engine = engine

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return self._engine.tokenize(text, add_special_tokens)

    def decode(self, token_ids: int | list[int], skip_special_tokens: bool = False) -> str:
        ids = [token_ids] if isinstance(token_ids, int) else list(token_ids)
        return self._engine.detokenize(ids, skip_special_tokens)

    def __call__(self, text: str | list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        """As transformers' without padding: `input_ids` and `attention_mask` of a text, or of each of several."""
        if isinstance(text, str):
            ids = self.encode(text, add_special_tokens)
            return {"input_ids": ids, "attention_mask": [1] * len(ids)}
        each = [self.encode(one, add_special_tokens) for one in text]
        return {"input_ids": each, "attention_mask": [[1] * len(ids) for ids in each]}

    @property
    def vocab_size(self) -> int:
        return int(self._engine.facts()["vocab_size"])

    def __len__(self) -> int:
        return self.vocab_size

    def apply_chat_template(self, conversation: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None,
                            add_generation_prompt: bool = False, tokenize: bool = True, **kwargs: Any) -> Any:
        body: dict[str, Any] = {"messages": conversation, "add_generation_prompt": add_generation_prompt}
        if tools is not None:
            body["tools"] = tools
        if kwargs:
            body["chat_template_kwargs"] = kwargs
        text = self._engine.apply_chat_template(json.dumps(body))
        return self.encode(text, add_special_tokens=False) if tokenize else text
