"""LiteLLM's openai provider."""
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
