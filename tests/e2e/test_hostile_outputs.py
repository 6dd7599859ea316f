"""Hostile model outputs: markup that never ends, nests deeply, repeats or is cut. Every format parses them in time
linear in their length and loses no text, and other requests are not affected."""

import json
import random
import re
import subprocess
import threading
import time

import httpx
import pytest
from conftest import ROOT, binary, serving, small_model

LONG = 60_000


def formats():
    page = (ROOT / "docs/tools.md").read_text()
    table = page[page.index("| `--tool-call-parser` | models |") :]
    return [
        name
        for line in table[: table.index("\n\n")].splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]


MARKUP = [
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "<parameter=a>",
    "</parameter>",
    "</function>",
    '{"name": "f", "arguments": {',
    '"a": "',
    "[f(a=",
    "f(a=[",
    '<invoke name="f">',
    '<parameter name="a">',
    "</invoke>",
    "<arg_key>a</arg_key><arg_value>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]f[ARGS]{",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{",
    "<|channel|>commentary to=functions.f<|message|>{",
    '<|tool_call>call:f{a:<|"|>',
    "<start_function_call>call:f{a:<escape>",
    "<think>",
    "</think>",
    "[THINK]",
    "<|python_tag|>",
    "functools[",
    "<minimax:tool_call>",
    ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">]<]minimax[>[<a>',
    '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a">',
    "<|open|>tools<|sep|>",
    "<seed:tool_call>",
    '<function name="f"><param name="a"><![CDATA[',
    '<|START_ACTION|>[{"tool_name":',
    "<|content_invoke_tool_json|>{",
    '<steptml:invoke name="f">',
    "<tool_calls>[{",
    "<|tools_prefix|>[{",
    "<longcat_tool_call>{",
    "function call<|role_sep|>\n{",
    "<function_calls>f(a=",
    "<|tool_call_start|>[f(a=",
    "<dots_function_call>",
]


def hostile():
    """Returns long outputs of each marker, nested and repeated, then random mixtures of markers."""
    draw = random.Random(3)
    for text in MARKUP:
        yield text + "x" * LONG
        yield text * (LONG // len(text))
    for opening, filler in (
        ("[f(a=", "["),
        ('{"name": "f", "arguments": ', '{"a":'),
        ("<tool_call>", '{"a":['),
        ("<tool_call><function=f><parameter=a>", "["),
        ("<|tool_call>call:f{a:", "{a:"),
        ("[f(a=", "-"),
        ("[f(a='", "\\"),
        ('<tool_call>{"name": "', '\\"'),
    ):
        yield opening + filler * (LONG // len(filler))
    for _ in range(40):
        yield "".join(
            draw.choice(
                MARKUP + ["{", "}", "[", "]", '"', "\\", ",", ":", "\n", "\u2028", "é", "1e999", "f(", ")", "<", "|"]
            )
            for _ in range(3000)
        )


@pytest.mark.parametrize("name", formats())
def test_every_format_reads_it_in_linear_time(tmp_path, name):
    path = tmp_path / "hostile.jsonl"
    tools = [
        {
            "type": "function",
            "function": {
                "name": "f",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": ["object", "array", "integer", "string"]}},
                },
            },
        }
    ]
    texts = list(hostile())
    path.write_text("".join(json.dumps({"text": text, "tools": tools}) + "\n" for text in texts))
    begin = time.monotonic()
    done = subprocess.run(
        [str(binary()), "parse", "--tool-call-parser", name, "--input", str(path)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(texts)
    for line, text in zip(lines, texts):
        message = json.loads(line)
        assert set(message) == {"content", "reasoning_content", "tool_calls"}, message
        assert len(message["content"] or "") <= len(text) + 10
    # 6 MB take one or two seconds; quadratic time would take hours.
    assert time.monotonic() - begin < 120


def test_it_costs_its_sender_alone(tmp_path):
    """A grammar makes the server's model write python-like calls, whose parser is recursive."""
    (tmp_path / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    plain = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 12, "temperature": 0}
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    texts = [
        "[f(a=" + "[" * 300,
        "[f(a=" + "{'a':" * 60,
        "[f(" * 100,
        "[f(a='" + "\\" * 300,
        "[f()]" * 70,
        "[f(a=1), f(a=2), g(" + "x" * 200,
        "[f(a=__import__('os').system('true'))]",
        "[f(a=1e" + "9" * 200 + ")]",
        "[f(**{'a': 1})]",
        "[f(a=f(a=f(a=1)))]",
        "[(lambda: 1)()]",
    ]
    with (
        serving(
            small_model(),
            "--served-model-name",
            "small",
            "--chat-template",
            str(tmp_path / "plain.jinja"),
            "--tool-call-parser",
            "pythonic",
        ) as server,
        httpx.Client(base_url=server.url, timeout=120) as http,
    ):
        wanted = http.post("/v1/chat/completions", json=plain).json()["choices"]
        done, waits = threading.Event(), []

        def neighbour():
            with httpx.Client(base_url=server.url, timeout=120) as client:
                while not done.is_set():
                    begin = time.monotonic()
                    assert client.post("/v1/chat/completions", json=plain).json()["choices"] == wanted
                    waits.append(time.monotonic() - begin)

        beside = threading.Thread(target=neighbour)
        beside.start()
        try:
            for text in texts * 3:
                for stream in (False, True):
                    answer = http.post(
                        "/v1/chat/completions",
                        json={
                            **plain,
                            "tools": tools,
                            "max_tokens": 380,
                            "stream": stream,
                            "grammar": "root ::= " + json.dumps(text),
                        },
                    )
                    if "no grammars" in answer.text:
                        pytest.skip("this build has no XGrammar")
                    assert answer.status_code == 200, answer.text
                    if not stream:
                        message = answer.json()["choices"][0]["message"]
                        calls = message.get("tool_calls") or []
                        assert message["content"] or calls, message
                        for call in calls:
                            assert json.loads(call["function"]["arguments"]) is not None
        finally:
            done.set()
            beside.join()
        assert waits and max(waits) < 30
        assert http.post("/v1/chat/completions", json=plain).json()["choices"] == wanted
