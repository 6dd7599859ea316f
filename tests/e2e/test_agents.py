"""Agents in the style of Claude Code and Codex, with the vendors' own clients. Each turn is a streamed call of a tool
that really reads or writes files; its result is sent back, and at the end there is a final message. The same agent
over chat completions, Messages and Responses does the same things."""

import json

import anthropic
import jsonschema
import openai
import pytest
from conftest import default_model, serving

PATH = {"enum": ["notes.txt", "plan.txt"]}
TOOLS = {
    "read_file": {"type": "object", "properties": {"path": PATH}, "required": ["path"], "additionalProperties": False},
    "write_file": {
        "type": "object",
        "properties": {"path": PATH, "text": {"type": "string", "maxLength": 24}},
        "required": ["path", "text"],
        "additionalProperties": False,
    },
}
WORDS = {"read_file": "Reads a file", "write_file": "Writes a file"}
SYSTEM = "You work on the files notes.txt and plan.txt with your tools."
TASK = "Read the notes, then write a plan."
ORDER = ["read_file", "write_file", None, "read_file"]  # the tool of each turn; None: any tool


class Folder:
    """The folder that the agent works on."""

    def __init__(self, path):
        self.path, self.done = path, []
        (path / "notes.txt").write_text("Buy bread.")

    def do(self, name, arguments):
        jsonschema.validate(arguments, TOOLS[name])
        self.done.append((name, arguments))
        file = self.path / arguments["path"]
        if name == "write_file":
            file.write_text(arguments["text"])
            return "written"
        return file.read_text() if file.exists() else "there is no such file"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    # The template renders calls and their results. Otherwise a turn would not depend on earlier turns.
    template = tmp_path_factory.mktemp("agent") / "agent.jinja"
    template.write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or []"
        ' %}<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson'
        " }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if tools %}{{ tools | map(attribute='function') |"
        " map(attribute='name') | join(' ') }}{% endif %}<|im_start|>assistant\n"
    )
    with serving(
        default_model(),
        "--max-model-len",
        "2048",
        "--served-model-name",
        "smol",
        "--chat-template",
        str(template),
        "--tool-call-parser",
        "hermes",
    ) as server:
        try:
            chat(server.url, Folder(tmp_path_factory.mktemp("try")), True)
        except openai.BadRequestError as error:
            if "no grammars" in str(error):
                pytest.skip("this build has no XGrammar: calls cannot be forced")
            raise
        yield server


def chat(url, folder, stream):
    """Returns the number of prompt tokens of each turn."""
    tools = [
        {"type": "function", "function": {"name": name, "description": WORDS[name], "parameters": TOOLS[name]}}
        for name in TOOLS
    ]
    messages, used = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}], []
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        for name in ORDER:
            answer = client.chat.completions.create(
                model="smol",
                messages=messages,
                tools=tools,
                temperature=0,
                max_tokens=200,
                parallel_tool_calls=False,
                tool_choice={"type": "function", "function": {"name": name}} if name else "required",
            )
            [call] = answer.choices[0].message.tool_calls
            result = folder.do(call.function.name, json.loads(call.function.arguments))
            messages += [
                answer.choices[0].message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": result},
            ]
            used.append(answer.usage.prompt_tokens)
        last = client.chat.completions.create(model="smol", messages=messages, temperature=0, max_tokens=12)
    return used, last.choices[0].message.content


def claude_code(url, folder, stream):
    """Uses blocks with cache_control, counts tokens before sending, and sends results as blocks."""
    tools = [{"name": name, "description": WORDS[name], "input_schema": TOOLS[name]} for name in TOOLS]
    tools[-1]["cache_control"] = {"type": "ephemeral"}
    system = [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}]
    messages, used = [{"role": "user", "content": [{"type": "text", "text": TASK}]}], []
    with anthropic.Anthropic(
        base_url=url,
        api_key="none",
        max_retries=0,
        timeout=120,
        default_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"},
    ) as client:

        def ask(**more):
            arguments = {
                "model": "smol",
                "system": system,
                "messages": messages,
                "extra_body": {"temperature": 0},
                "metadata": {"user_id": "u"},
                **more,
            }
            if not stream:
                return client.messages.create(**arguments)
            with client.messages.stream(**arguments) as events:
                return events.get_final_message()

        for name in ORDER:
            counted = client.messages.count_tokens(
                model="smol", system=system, messages=messages, tools=tools
            ).input_tokens
            answer = ask(
                tools=tools,
                max_tokens=200,
                tool_choice={
                    "disable_parallel_tool_use": True,
                    **({"type": "tool", "name": name} if name else {"type": "any"}),
                },
            )
            [call] = [block for block in answer.content if block.type == "tool_use"]
            assert answer.stop_reason == "tool_use"
            result = folder.do(call.name, call.input)
            messages += [
                {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": call.id,
                            "content": [{"type": "text", "text": result}],
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ]
            used.append(answer.usage.input_tokens + answer.usage.cache_read_input_tokens)
            assert used[-1] == counted
        return used, ask(max_tokens=12).content[0].text


def codex(url, folder, stream, keeps=False):
    """Without `keeps`, nothing is stored: each turn sends back all items as received. With `keeps`, everything is
    stored, and a turn sends only its result."""
    tools = [
        {"type": "function", "name": name, "description": WORDS[name], "parameters": TOOLS[name], "strict": True}
        for name in TOOLS
    ]
    items, used, before = (
        [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASK}]}],
        [],
        None,
    )
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=120) as client:

        def ask(**more):
            arguments = {
                "model": "smol",
                "instructions": SYSTEM,
                "input": items,
                "store": keeps,
                "temperature": 0,
                "parallel_tool_calls": False,
                "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": "k",
                **more,
            }
            if before:
                arguments["previous_response_id"] = before
            answer = client.responses.create(stream=stream, **arguments)
            if stream:
                *_, last = answer
                assert last.type == "response.completed" or last.response.status == "incomplete"
                answer = last.response
            return answer

        for name in ORDER:
            answer = ask(
                tools=tools,
                max_output_tokens=200,
                tool_choice={"type": "function", "name": name} if name else "required",
            )
            [call] = [item for item in answer.output if item.type == "function_call"]
            result = {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": folder.do(call.name, json.loads(call.arguments)),
            }
            if keeps:
                items, before = [result], answer.id
            else:
                items += [item.model_dump(exclude_none=True) for item in answer.output] + [result]
            used.append(answer.usage.input_tokens)
        return used, ask(max_output_tokens=12).output_text


def codex_kept(url, folder, stream):
    return codex(url, folder, stream, keeps=True)


@pytest.fixture(scope="module")
def expected(house, tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("chat"))
    used, word = chat(house.url, folder, False)
    assert all(wanted in (name, None) for (name, _), wanted in zip(folder.done, ORDER, strict=True))
    assert used == sorted(set(used)), "the turns before are not in the prompt"
    return folder.done, used, word


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", [claude_code, codex, codex_kept])
def test_an_agent_works_on_files(house, expected, tmp_path, agent, stream):
    folder = Folder(tmp_path)
    used, word = agent(house.url, folder, stream)
    assert (folder.done, used, word) == expected
    wrote = {arguments["path"]: arguments["text"] for name, arguments in folder.done if name == "write_file"}
    for path, text in wrote.items():
        assert (tmp_path / path).read_text() == text
