"""LiteLLM's openai provider."""
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its list of prices from the package, not from the network
import litellm  # noqa: E402


def ask(server, **more):
    return litellm.completion(model="openai/smol", api_base=server.url + "/v1", api_key="none", temperature=0,
                              messages=[{"role": "user", "content": "Name a colour."}], max_tokens=12, **more)


def test_a_stream_gives_the_text_of_the_whole_answer(server):
    whole = ask(server).choices[0].message.content
    assert whole and "".join(chunk.choices[0].delta.content or "" for chunk in ask(server, stream=True)) == whole


def test_its_responses_and_its_other_providers_say_the_same(server):
    chat = ask(server).choices[0].message.content
    answer = litellm.responses(model="openai/smol", api_base=server.url + "/v1", api_key="none", temperature=0,
                               input="Name a colour.", max_output_tokens=12)
    assert "".join(part.text for item in answer.output for part in item.content) == chat
    for provider in ("anthropic", "ollama_chat"):
        said = litellm.completion(model=f"{provider}/smol", api_base=server.url, api_key="none", temperature=0,
                                  messages=[{"role": "user", "content": "Name a colour."}], max_tokens=12)
        assert said.choices[0].message.content == chat, provider


def test_tools_and_forms_through_it(server):
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"], "additionalProperties": False}}}
    how = dict(model="openai/smol", api_base=server.url + "/v1", api_key="none", temperature=0, max_tokens=100,
               messages=[{"role": "user", "content": "Add 3."}])
    [call] = litellm.completion(tools=[tool], tool_choice="required", parallel_tool_calls=False, **how).choices[0].message.tool_calls
    assert call.function.name == "add" and set(json.loads(call.function.arguments)) == {"a"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}
    assert json.loads(litellm.completion(response_format=form, **how).choices[0].message.content) in ("yes", "no")


def test_its_responses_stream(server):
    how = dict(model="openai/smol", api_base=server.url + "/v1", api_key="none", temperature=0, input="Name a colour.", max_output_tokens=12)
    whole = "".join(part.text for item in litellm.responses(**how).output for part in item.content)
    events = list(litellm.responses(stream=True, **how))
    assert whole and "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole
