"""The tokenizer of the engine, with the interface of a transformers tokenizer."""

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
        """Returns `input_ids` and `attention_mask` of one text or of a list of texts, without padding, as transformers
        does."""
        if isinstance(text, str):
            ids = self.encode(text, add_special_tokens)
            return {"input_ids": ids, "attention_mask": [1] * len(ids)}
        each = [self.encode(one, add_special_tokens) for one in text]
        return {"input_ids": each, "attention_mask": [[1] * len(ids) for ids in each]}

    def batch_decode(self, sequences: list[list[int]], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(ids, skip_special_tokens) for ids in sequences]

    def convert_ids_to_tokens(self, ids: int | list[int]) -> Any:
        """Returns the tokens as the vocabulary spells them."""
        return self._engine.token_text(ids) if isinstance(ids, int) else [self._engine.token_text(one) for one in ids]

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> Any:
        """Returns the ids of tokens; None for a text that is not a token."""
        return self._id(tokens) if isinstance(tokens, str) else [self._id(one) for one in tokens]

    def tokenize(self, text: str, add_special_tokens: bool = False) -> list[str]:
        return [self._engine.token_text(one) for one in self.encode(text, add_special_tokens)]

    def get_vocab(self) -> dict[str, int]:
        return {self._engine.token_text(one): one for one in range(self.vocab_size)}

    @property
    def bos_token_id(self) -> int | None:
        return self._special("bos")

    @property
    def eos_token_id(self) -> int | None:
        return self._special("eos")

    @property
    def pad_token_id(self) -> int | None:
        return self._special("pad")

    @property
    def bos_token(self) -> str | None:
        return self._text_of(self.bos_token_id)

    @property
    def eos_token(self) -> str | None:
        return self._text_of(self.eos_token_id)

    @property
    def pad_token(self) -> str | None:
        return self._text_of(self.pad_token_id)

    @property
    def model_max_length(self) -> int:
        return int(self._engine.facts()["max_model_len"])

    def _special(self, name: str) -> int | None:
        found = int(self._engine.facts()[f"{name}_token_id"])
        return found if found >= 0 else None

    def _id(self, token: str) -> int | None:
        found = self._engine.token_id(token)
        return found if found >= 0 else None

    def _text_of(self, token: int | None) -> str | None:
        return None if token is None else self._engine.token_text(token)

    @property
    def vocab_size(self) -> int:
        return int(self._engine.facts()["vocab_size"])

    def __len__(self) -> int:
        return self.vocab_size

    def apply_chat_template(
        self,
        conversation: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        **kwargs: Any,
    ) -> Any:
        body: dict[str, Any] = {"messages": conversation, "add_generation_prompt": add_generation_prompt}
        if tools is not None:
            body["tools"] = tools
        if kwargs:
            body["chat_template_kwargs"] = kwargs
        text = self._engine.apply_chat_template(json.dumps(body))
        return self.encode(text, add_special_tokens=False) if tokenize else text
