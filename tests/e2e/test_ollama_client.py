"""Ollama's routes, used with the official ollama client."""

import ollama
import pytest

MESSAGES = [{"role": "user", "content": "Say hello."}]
OPTIONS = {"temperature": 0, "num_predict": 12}


@pytest.fixture
def llama(server):
    return ollama.Client(host=server.url, timeout=120)


def test_chat_streamed_is_chat_whole(llama):
    whole = llama.chat(model="smol:latest", messages=MESSAGES, options=OPTIONS)
    assert whole.message.content and whole.done and whole.eval_count <= 12 and whole.prompt_eval_count > 0
    assert whole.total_duration >= whole.eval_duration > 0
    pieces = list(llama.chat(model="smol", messages=MESSAGES, options=OPTIONS, stream=True))
    assert "".join(piece.message.content for piece in pieces) == whole.message.content
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].eval_count == whole.eval_count and pieces[-1].done_reason == whole.done_reason


def test_generate_takes_the_template_unless_raw(llama):
    chat = llama.chat(model="smol", messages=MESSAGES, options=OPTIONS)
    assert llama.generate(model="smol", prompt="Say hello.", options=OPTIONS).response == chat.message.content
    raw = llama.generate(model="smol", prompt="Say hello.", options=OPTIONS, raw=True)
    assert raw.prompt_eval_count < chat.prompt_eval_count


def test_an_empty_prompt_only_loads(llama):
    loaded = llama.generate(model="smol")
    assert loaded.done and loaded.done_reason == "load" and loaded.response == ""


def test_what_there_is(llama):
    assert [model.model for model in llama.list().models] == ["smol"]
    assert [model.model for model in llama.ps().models] == ["smol"]
    shown = llama.show("smol")
    assert "completion" in shown.capabilities and shown.modelinfo["llama.context_length"] == 2048


def test_what_is_served_is_pulled_already(llama):
    assert [step.status for step in llama.pull("smol", stream=True)][-1] == "success"
    assert llama.pull("smol:latest").status == "success"
    with pytest.raises(ollama.ResponseError, match="llama3") as error:
        llama.pull("llama3")
    assert error.value.status_code == 404


def test_errors_are_the_clients_own(llama):
    with pytest.raises(ollama.ResponseError, match="does not exist") as error:
        llama.chat(model="nothing", messages=MESSAGES)
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="text only"):
        llama.chat(model="smol", messages=[{"role": "user", "content": "x", "images": [b"png"]}])
