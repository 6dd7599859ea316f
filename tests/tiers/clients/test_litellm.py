"""LiteLLM's openai provider."""

import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its list of prices from the package, not from the network
import litellm  # noqa: E402


def ask(server, **more):
    return litellm.completion(
        model="openai/smol",
        api_base=server.url + "/v1",
        api_key="none",
        temperature=0,
        messages=[{"role": "user", "content": "Name a colour."}],
        max_tokens=16,
        **more,
    )


def test_a_stream_gives_the_text_of_the_whole_answer(server):
    whole = ask(server).choices[0].message.content
    assert whole and "".join(chunk.choices[0].delta.content or "" for chunk in ask(server, stream=True)) == whole


# LiteLLM requests at least 16 tokens from Responses.
def test_its_responses_and_its_other_providers_say_the_same(server):
    chat = ask(server).choices[0].message.content
    answer = litellm.responses(
        model="openai/smol",
        api_base=server.url + "/v1",
        api_key="none",
        temperature=0,
        input="Name a colour.",
        max_output_tokens=16,
    )
    assert "".join(part.text for item in answer.output for part in item.content) == chat
    for provider in ("anthropic", "ollama_chat"):
        said = litellm.completion(
            model=f"{provider}/smol",
            api_base=server.url,
            api_key="none",
            temperature=0,
            messages=[{"role": "user", "content": "Name a colour."}],
            max_tokens=16,
        )
        assert said.choices[0].message.content == chat, provider


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "minimum": 0, "maximum": 99},
                    "b": {"type": "integer", "minimum": 0, "maximum": 99},
                },
                "required": ["a", "b"],
            },
        },
    }
]


def test_a_forced_call_comes_through_two_providers_whole_and_streamed(server):
    found = []
    for provider, base in (("openai", server.url + "/v1"), ("anthropic", server.url)):
        for stream in (False, True):
            answer = litellm.completion(
                model=f"{provider}/smol",
                api_base=base,
                api_key="none",
                temperature=0,
                max_tokens=100,
                stream=stream,
                messages=[{"role": "user", "content": "What is 2 + 3?"}],
                tools=TOOLS,
                tool_choice="required",
                parallel_tool_calls=False,
            )
            if stream:
                answer = litellm.stream_chunk_builder(list(answer))
            [call] = answer.choices[0].message.tool_calls
            assert answer.choices[0].finish_reason == "tool_calls"
            found.append((call.function.name, json.loads(call.function.arguments)))
    assert found[0][0] == "add" and set(found[0][1]) == {"a", "b"}
    assert found == found[:1] * 4
