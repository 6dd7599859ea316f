"""OpenAI's routes, used with the official openai client: answers, streams and errors, all valid by OpenAI's schema."""

import asyncio

import httpx
import openai
import pytest

MESSAGES = [{"role": "system", "content": "You answer briefly."}, {"role": "user", "content": "Say hello."}]
GREEDY = {"model": "smol", "temperature": 0}


def test_the_validator_can_fail(client, valid):
    answer = client.chat.completions.create(messages=MESSAGES, max_tokens=1, **GREEDY).model_dump(exclude_unset=True)
    del answer["choices"][0]["message"]["refusal"]
    with pytest.raises(AssertionError, match="refusal"):
        valid("CreateChatCompletionResponse", answer)


def test_models(client, valid):
    models = client.models.list()
    assert [m.id for m in models.data] == ["smol"]
    for model in models.data:
        valid("Model", model)
    valid("Model", client.models.retrieve("smol"))
    with pytest.raises(openai.NotFoundError) as error:
        client.models.retrieve("gpt-9")
    assert error.value.code == "model_not_found"


def test_completion(client, valid):
    answer = client.completions.create(
        prompt="Once upon a time", max_tokens=12, extra_body={"ignore_eos": True}, **GREEDY
    )
    valid("CreateCompletionResponse", answer)
    assert answer.id.startswith("cmpl-")
    assert answer.choices[0].text
    assert answer.usage.completion_tokens == 12 and answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 12


def test_chat(client, valid):
    answer = client.chat.completions.create(messages=MESSAGES, max_completion_tokens=12, **GREEDY)
    valid("CreateChatCompletionResponse", answer)
    assert answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content


def test_stream_is_the_whole_answer_in_pieces(client, valid):
    arguments = dict(messages=MESSAGES, max_tokens=16, **GREEDY)
    whole = client.chat.completions.create(**arguments)
    text, finish, usage, roles = "", None, None, []
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **arguments):
        valid("CreateChatCompletionStreamResponse", chunk)
        if chunk.usage:
            usage = chunk.usage
            assert chunk.choices == []
            continue
        delta = chunk.choices[0].delta
        if delta.role:
            roles.append(delta.role)
        text += delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    assert text == whole.choices[0].message.content
    assert finish == whole.choices[0].finish_reason
    assert roles == ["assistant"]
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_completion_stream(client, valid):
    arguments = dict(prompt="The sea is", max_tokens=16, logprobs=2, **GREEDY)
    whole = client.completions.create(**arguments)
    valid("CreateCompletionResponse", whole)
    text, tokens = "", []
    for chunk in client.completions.create(stream=True, **arguments):
        valid("CompletionChunk", chunk)
        text += chunk.choices[0].text
        if chunk.choices[0].logprobs:
            tokens += chunk.choices[0].logprobs.tokens
            # Offsets continue across chunks.
            assert chunk.choices[0].logprobs.text_offset[0] >= len(
                "".join(tokens[: -len(chunk.choices[0].logprobs.tokens)])
            )
    assert text == whole.choices[0].text
    assert tokens == whole.choices[0].logprobs.tokens


def test_async_client(server, valid):
    async def ask():
        async with openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            prompts = [f"Number {i} is" for i in range(8)]
            answers = await asyncio.gather(
                *(
                    client.completions.create(prompt=p, max_tokens=6, extra_body={"ignore_eos": True}, **GREEDY)
                    for p in prompts
                )
            )
            pieces = []
            async for chunk in await client.chat.completions.create(
                messages=MESSAGES, max_tokens=6, stream=True, **GREEDY
            ):
                pieces.append(chunk)
            return answers, pieces

    answers, pieces = asyncio.run(ask())
    for answer in answers:
        valid("CreateCompletionResponse", answer)
        assert answer.usage.completion_tokens == 6
    for piece in pieces:
        valid("CreateChatCompletionStreamResponse", piece)


def test_chat_logprobs(client, valid):
    answer = client.chat.completions.create(messages=MESSAGES, max_tokens=5, logprobs=True, top_logprobs=3, **GREEDY)
    valid("CreateChatCompletionResponse", answer)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for entry in content:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob == max(t.logprob for t in entry.top_logprobs)
        assert entry.top_logprobs[0].token == entry.token  # greedy
        assert bytes(entry.bytes).decode("utf-8", "replace") == entry.token


def test_n_choices(client, valid):
    answer = client.completions.create(
        model="smol", prompt="Once", n=4, seed=7, max_tokens=12, temperature=1, extra_body={"ignore_eos": True}
    )
    valid("CreateCompletionResponse", answer)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    assert len({c.text for c in answer.choices}) > 1, "each choice draws its own random numbers"
    assert answer.usage.completion_tokens == 4 * 12


def test_several_prompts(client, valid):
    prompts = ["One two three", "Alpha beta"]
    answer = client.completions.create(prompt=prompts, max_tokens=5, n=2, echo=True, **GREEDY)
    valid("CreateCompletionResponse", answer)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        assert choice.text.startswith(prompts[choice.index // 2])


def test_a_seed_repeats(client):
    def ask(seed):
        return (
            client.completions.create(model="smol", prompt="Once", seed=seed, max_tokens=16, temperature=1.2)
            .choices[0]
            .text
        )

    assert ask(1) == ask(1)
    assert len({ask(seed) for seed in range(5)}) > 1


def test_stop_strings(client):
    plain = client.completions.create(prompt="One, two, three,", max_tokens=24, **GREEDY).choices[0]
    stop = plain.text[5:8]
    stopped = client.completions.create(prompt="One, two, three,", max_tokens=24, stop=[stop], **GREEDY).choices[0]
    assert stopped.text == plain.text[: plain.text.index(stop)]
    assert stopped.finish_reason == "stop" and stopped.stop_reason == stop
    kept = client.completions.create(
        prompt="One, two, three,", max_tokens=24, stop=stop, **GREEDY, extra_body={"include_stop_str_in_output": True}
    ).choices[0]
    assert kept.text == stopped.text + stop
    streamed = "".join(
        c.choices[0].text
        for c in client.completions.create(prompt="One, two, three,", max_tokens=24, stop=[stop], stream=True, **GREEDY)
    )
    assert streamed == stopped.text


@pytest.mark.parametrize(
    "arguments, param",
    [
        ({"temperature": -1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 1000}, "n"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"extra_body": {"top_k": "many"}}, "top_k"),
        ({"stop": [""]}, "stop.0"),
    ],
)
def test_bad_fields_are_named(client, arguments, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(**{"model": "smol", "prompt": "x", **arguments})
    assert error.value.param == param
    assert error.value.type == "invalid_request_error"


def test_too_long_is_told(client, valid):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="smol", prompt="word " * 3000)
    assert error.value.code == "context_length_exceeded"
    assert "maximum context length is 2048 tokens" in error.value.message
    valid("ErrorResponse", error.value.response.json())


def test_unknown_model(client, valid):
    with pytest.raises(openai.NotFoundError) as error:
        client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert error.value.code == "model_not_found" and error.value.param == "model"
    valid("ErrorResponse", error.value.response.json())


def test_request_id_goes_through(server):
    answer = httpx.post(
        server.url + "/v1/completions",
        headers={"X-Request-Id": "abc-1"},
        json={"prompt": "x", "max_tokens": 1},
        timeout=60,
    )
    assert answer.headers["x-request-id"] == "abc-1"
    assert answer.json()["id"] == "cmpl-abc-1"
