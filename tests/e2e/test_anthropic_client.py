"""/v1/messages, used with the official anthropic client."""

import anthropic
import httpx
import pytest
from conftest import default_model, serving

MESSAGES = [{"role": "user", "content": "Say hello."}]
# The client no longer has a temperature parameter.
GREEDY = {"model": "smol", "max_tokens": 16, "extra_body": {"temperature": 0}}


@pytest.fixture
def claude(server):
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=120) as made:
        yield made


def test_a_stream_is_the_whole_message_in_pieces(claude):
    arguments = dict(
        messages=MESSAGES,
        system=[{"type": "text", "text": "You answer briefly.", "cache_control": {"type": "ephemeral"}}],
        **GREEDY,
    )
    whole = claude.messages.create(**arguments)
    assert whole.type == "message" and whole.role == "assistant" and whole.content[0].text
    assert whole.usage.output_tokens <= 16 and whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 0
    with claude.messages.stream(**arguments) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_message()
    assert streamed.content[0].text == whole.content[0].text
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


def test_a_stop_sequence_ends_the_message_and_is_named(claude):
    whole = claude.messages.create(messages=MESSAGES, **GREEDY).content[0].text
    stop = whole[3:6]
    ended = claude.messages.create(messages=MESSAGES, stop_sequences=[stop], **GREEDY)
    assert ended.stop_reason == "stop_sequence" and ended.stop_sequence == stop
    assert ended.content[0].text == whole[: whole.index(stop)]


def test_counted_tokens_are_those_of_the_prompt(claude):
    counted = claude.messages.count_tokens(model="smol", messages=MESSAGES)
    usage = claude.messages.create(messages=MESSAGES, **GREEDY).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens


def test_tools_and_their_results_go_into_the_prompt(claude):
    tools = [
        {
            "name": "weather",
            "description": "of a city",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ]
    messages = MESSAGES + [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]},
    ]
    assert claude.messages.create(messages=messages, tools=tools, tool_choice={"type": "auto"}, **GREEDY).content


def test_no_tokens_only_fill_the_cache(claude):
    words = [{"role": "user", "content": "One two three four five six seven eight nine ten eleven. " * 4}]
    ask = {**GREEDY, "messages": words}
    warmed = claude.messages.create(**{**ask, "max_tokens": 0})
    assert warmed.content == [] and warmed.stop_reason == "max_tokens" and warmed.usage.output_tokens == 0
    assert warmed.usage.input_tokens > 32
    with claude.messages.stream(**{**ask, "max_tokens": 0}) as stream:
        assert stream.get_final_message().content == []
    assert claude.messages.create(**ask).usage.cache_read_input_tokens > 32


def test_errors_are_the_clients_own(claude):
    with pytest.raises(anthropic.BadRequestError) as error:
        claude.messages.create(messages=[], **GREEDY)
    assert error.value.body["type"] == "error" and error.value.body["error"]["type"] == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError) as error:
        claude.messages.create(messages=MESSAGES, model="claude-opus-4", max_tokens=1)
    assert error.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="supports text only"):
        claude.messages.create(
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
                    ],
                }
            ],
            **GREEDY,
        )


def test_its_key_opens_the_server_and_api_says_what_is_served():
    with serving(
        default_model(),
        "--max-model-len",
        "256",
        "--served-model-name",
        "smol",
        "--api-key",
        "secret",
        "--api",
        "anthropic",
    ) as server:
        with anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0) as good:
            assert good.messages.create(messages=MESSAGES, **GREEDY).content
        with anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as bad:
            with pytest.raises(anthropic.AuthenticationError):
                bad.messages.create(messages=MESSAGES, **GREEDY)
        keyed = {"Authorization": "Bearer secret"}
        assert httpx.post(server.url + "/v1/chat/completions", json={}, headers=keyed).status_code == 404
        assert httpx.get(server.url + "/api/tags", headers=keyed).status_code == 404
