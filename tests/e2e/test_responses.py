"""/v1/responses, used with the official openai client; all answers are valid by OpenAI's own schema."""

import subprocess
import time

import openai
import pytest
from conftest import binary, default_model, serving, shared_data
from openapi import Validator

GREEDY = {"model": "smol", "temperature": 0, "max_output_tokens": 16}


@pytest.fixture(scope="session")
def conforms():
    data = shared_data()
    if data is None:
        pytest.skip("OpenAI's OpenAPI file is not here (PAGODA_SHARED_DATA): answers are not validated")
    return Validator(data / "conformance/openai_openapi_responses.json")


def test_a_stream_is_the_whole_response_in_pieces(client, conforms):
    arguments = dict(input="Say hello.", instructions="You answer briefly.", metadata={"a": "b"}, **GREEDY)
    whole = client.responses.create(**arguments)
    conforms("Response", whole)
    assert whole.output_text and whole.id.startswith("resp_")
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    text, kinds, last = "", [], None
    for event in client.responses.create(stream=True, **arguments):
        conforms("ResponseStreamEvent", event)
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    assert text == whole.output_text == last.response.output_text
    assert last.response.usage.output_tokens == whole.usage.output_tokens
    assert last.response.status == whole.status
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert [event for event in kinds if "delta" not in event][2:] == [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response." + whole.status,
    ]


def test_log_probabilities_are_those_of_chats(client, conforms):
    ask = dict(input="Say hello.", include=["message.output_text.logprobs"], top_logprobs=2, **GREEDY)
    whole = client.responses.create(**ask)
    conforms("Response", whole)
    streamed, last = [], None
    for last in client.responses.create(stream=True, **ask):
        conforms("ResponseStreamEvent", last)
        if last.type == "response.output_text.delta":
            assert "".join(token.token for token in last.logprobs) == last.delta
            streamed += [(token.token, token.logprob, len(token.top_logprobs)) for token in last.logprobs]
    chat = client.chat.completions.create(
        model="smol", messages=[{"role": "user", "content": "Say hello."}], temperature=0, max_tokens=16, logprobs=True
    )
    of_chat = [(token.token, token.logprob) for token in chat.choices[0].logprobs.content]
    for response in whole, last.response:
        part = response.output[0].content[0]
        assert [(t.token, t.logprob, len(t.top_logprobs)) for t in part.logprobs] == streamed
        assert "".join(t.token for t in part.logprobs) == part.text
    assert [token[:2] for token in streamed] == of_chat[: len(streamed)] and len(streamed) >= len(of_chat) - 1


def test_a_conversation_goes_on_from_what_is_stored(client, conforms):
    first = client.responses.create(input="Name a colour.", **GREEDY)
    second = client.responses.create(input="Another one.", previous_response_id=first.id, **GREEDY)
    by_hand = client.responses.create(
        input=[
            {"role": "user", "content": "Name a colour."},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "Another one."},
        ],
        **GREEDY,
    )
    assert second.output_text == by_hand.output_text
    assert second.usage.input_tokens == by_hand.usage.input_tokens
    assert client.responses.retrieve(second.id).output_text == second.output_text
    items = client.responses.input_items.list(second.id)
    assert [item.content[0].text for item in items.data] == ["Another one."]
    conforms("ResponseItemList", items)
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_in_the_background_it_is_asked_for_until_it_ends(client, conforms):
    made = client.responses.create(input="Say hello.", background=True, **GREEDY)
    conforms("Response", made)
    deadline = time.monotonic() + 60
    while made.status == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.05)
        made = client.responses.retrieve(made.id)
    assert made.status in ("completed", "incomplete")
    assert made.output_text == client.responses.create(input="Say hello.", **GREEDY).output_text
    assert client.responses.cancel(made.id).status == made.status, "it has ended"


def test_a_stream_in_the_background_goes_on_without_its_client(client, conforms):
    """An interrupted and resumed stream has every event exactly once."""
    arguments = dict(input="Say hello.", **{**GREEDY, "max_output_tokens": 40})
    first = []
    with client.responses.create(stream=True, background=True, **arguments) as stream:
        for event in stream:
            conforms("ResponseStreamEvent", event)
            first.append(event)
            if len(first) == 6:
                break
    id = first[0].response.id
    rest = list(client.responses.retrieve(id, stream=True, starting_after=first[-1].sequence_number))
    for event in rest:
        conforms("ResponseStreamEvent", event)
    assert [event.sequence_number for event in first + rest] == list(range(len(first) + len(rest)))
    whole = client.responses.create(**arguments)
    assert rest[-1].response.output_text == whole.output_text == client.responses.retrieve(id).output_text
    again = list(client.responses.retrieve(id, stream=True))
    assert [event.type for event in again] == [event.type for event in first + rest]
    with pytest.raises(openai.BadRequestError):
        list(client.responses.retrieve(whole.id, stream=True))


def test_a_cancelled_one_frees_the_engine(client, server):
    made = client.responses.create(
        input="Count.",
        background=True,
        model="smol",
        max_output_tokens=1500,
        extra_body={"seed": 1, "ignore_eos": True},
    )
    assert client.responses.cancel(made.id).status == "cancelled"
    assert server.wait_until_idle(10)
    assert client.responses.retrieve(made.id).status == "cancelled"


def test_counted_tokens_are_those_of_the_prompt(client):
    counted = client.responses.input_tokens.count(model="smol", input="Say hello.", instructions="Be brief.")
    used = client.responses.create(input="Say hello.", instructions="Be brief.", **GREEDY).usage
    assert counted.input_tokens == used.input_tokens


def test_tools_are_declared_and_their_results_taken(client, conforms):
    tools = [
        {
            "type": "function",
            "name": "weather",
            "description": "of a city",
            "strict": True,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        }
    ]
    answer = client.responses.create(
        input=[
            {"role": "user", "content": "Weather in Oslo?"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        ],
        tools=tools,
        **GREEDY,
    )
    conforms("Response", answer)


def test_errors_name_the_field(client):
    for arguments, param in [
        ({"input": 3}, "input"),
        ({"input": "x", "conversation": "c"}, "conversation"),
        ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
    ]:
        with pytest.raises(openai.APIStatusError) as error:
            client.responses.create(**arguments, **GREEDY)
        assert error.value.param == param


def test_kept_answers_outlive_the_server(tmp_path):
    """Stored answers are found and continued after a restart, up to the limit; only damaged ones are lost."""
    folder = tmp_path / "kept"
    flags = [
        "--max-model-len",
        "512",
        "--served-model-name",
        "smol",
        "--response-store-dir",
        str(folder),
        "--response-store-bytes",
        "1MiB",
    ]

    def asking(work):
        with (
            serving(default_model(), *flags) as server,
            openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client,
        ):
            return work(client)

    def make(client):
        first = client.responses.create(input="Name a colour.", **GREEDY)
        made = client.responses.create(input="Say hello.", background=True, **GREEDY)
        while made.status == "in_progress":
            time.sleep(0.05)
            made = client.responses.retrieve(made.id)
        return first, made

    first, second = asking(make)
    assert len(list(folder.glob("*.answer"))) == 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.glob("*.answer"))

    def go_on(client):
        assert client.responses.retrieve(first.id).output_text == first.output_text
        assert client.responses.retrieve(second.id).to_dict() == second.to_dict()
        third = client.responses.create(input="Another one.", previous_response_id=first.id, **GREEDY)
        assert third.usage.input_tokens > first.usage.input_tokens
        client.responses.delete(second.id)
        return third

    third = asking(go_on)
    assert len(list(folder.glob("*.answer"))) == 2
    for path in folder.glob("*.answer"):
        if first.id.encode() in path.read_bytes().splitlines()[1]:
            path.write_bytes(path.read_bytes()[:-3])

    def after(client):
        assert client.responses.retrieve(third.id).output_text == third.output_text
        for id in first.id, second.id:
            with pytest.raises(openai.NotFoundError):
                client.responses.retrieve(id)
        for _i in range(4):  # the limit applies to files on disk
            client.responses.create(input="x", metadata={"a": "b"}, instructions="y" * 300, **GREEDY)

    asking(after)
    with serving(default_model(), *flags) as server:
        done = subprocess.run(
            [str(binary()), "serve", str(default_model()), "--port", "0", *flags],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (
            done.returncode == 2 and "another server" in done.stderr and len(done.stderr.strip().splitlines()) == 1
        ), done.stderr
        assert server.process.poll() is None


def test_without_a_store_nothing_is_kept():
    with (
        serving(
            default_model(), "--max-model-len", "256", "--served-model-name", "smol", "--response-store-bytes", "0"
        ) as server,
        openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        made = client.responses.create(input="Hi.", **GREEDY)
        assert made.output_text and not made.to_dict()["store"]
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(made.id)
