"""End of answers: in GGUF files whose eos is the end of a document, the end of a turn is found only by its name."""

import httpx
import pytest
from conftest import serving
from small_model import VOCAB, write_small_model

USER, END, OTHER = VOCAB - 3, VOCAB - 2, VOCAB - 1


def ask(http, **more):
    body = {"prompt": "Hi", "max_tokens": 5, "return_token_ids": True, **more}
    answer = http.post("/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    return choice["finish_reason"], choice["stop_reason"], choice["token_ids"]


@pytest.mark.parametrize("control", [True, False])
def test_a_token_that_ends_a_turn_by_its_name(tmp_path, control):
    write_small_model(tmp_path / "m.gguf", ["<|user|>", "<|end|>", "<|endofprompt|>"], control=control)
    with serving(tmp_path / "m.gguf") as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert ask(http, logit_bias={END: 100}) == ("stop", END, [END])
        assert ask(http, logit_bias={END: 100}, ignore_eos=True) == ("length", None, [END] * 5)
        assert ask(http, logit_bias={END: 100}, ignore_eos=True, stop_token_ids=[END]) == ("stop", END, [END])
        assert ask(http, logit_bias={0: 100}) == ("stop", None, [0])  # the tokenizer's EOS, as in vLLM
        assert ask(http, logit_bias={0: 100}, ignore_eos=True) == ("length", None, [0] * 5)
        assert ask(http, logit_bias={USER: 100}) == ("length", None, [USER] * 5)
        assert ask(http, logit_bias={OTHER: 100}) == ("length", None, [OTHER] * 5)
        assert f"end-of-turn tokens: 0 <|endoftext|>, {END} <|end|>" in "".join(server.log)


def test_harmony_ends_messages_within_a_turn(tmp_path):
    write_small_model(tmp_path / "m.gguf", ["<|return|>", "<|end|>", "<|call|>"], control=True)
    with serving(tmp_path / "m.gguf") as server, httpx.Client(base_url=server.url, timeout=60) as http:
        assert ask(http, logit_bias={END: 100}) == ("length", None, [END] * 5)
        assert ask(http, logit_bias={OTHER: 100}) == ("stop", OTHER, [OTHER])
