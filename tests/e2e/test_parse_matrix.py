"""The same answers in every format with markup around arguments: with and without reasoning and content, one call or
several, whitespace between sections, and empty sections. Answers are also cut before their last marker, where the last
call is still found, and streamed with every possible cut."""

import json

import pytest
from test_parse import flags_of, message, parse

FILE = ("read_file", {"path": "/tmp/test.txt"})
BASH = ("bash", {"command": "hostname", "description": "Get hostname"})
WEATHER = ("get_weather", {"city": "Dallas", "state": "TX", "unit": "fahrenheit"})
SEARCH = (
    "search",
    {
        "query": "vllm parser",
        "filters": {"language": "python", "min_stars": 100},
        "tags": ["ml", "inference"],
        "limit": 10,
        "verbose": True,
    },
)


def schema_of(value):
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: schema_of(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0])}
    return {
        "type": next(
            word for word, kind in (("boolean", bool), ("integer", int), ("string", str)) if isinstance(value, kind)
        )
    }


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema_of(arguments)}}
    for name, arguments in (FILE, BASH, WEATHER, SEARCH)
]


def plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def tags(open_, key_end, close):
    def write(arguments):
        return "".join(f"{open_}{key}{key_end}{plain(value)}{close}" for key, value in arguments.items())

    return write


def gemma(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(gemma, value)) + "]"
    return f'<|"|>{value}<|"|>' if isinstance(value, str) else json.dumps(value)


def tree(value):
    mark = "]<]minimax[>["
    if isinstance(value, dict):
        return "".join(f"{mark}<{key}>{tree(inner)}{mark}</{key}>" for key, inner in value.items())
    if isinstance(value, list):
        return "".join(f"{mark}<item>{tree(inner)}{mark}</item>" for inner in value)
    return plain(value)


QWEN = tags("<parameter=", ">", "</parameter>\n")
GLM = tags("<arg_key>", "</arg_key><arg_value>", "</arg_value>")
INVOKE = tags('<parameter name="', '">', "</parameter>")


def dsml(arguments):
    return "".join(
        f'<｜DSML｜parameter name="{key}"'
        f' string="{str(isinstance(value, str)).lower()}">{plain(value)}</｜DSML｜parameter>\n'
        for key, value in arguments.items()
    )


def call_of(begin, middle, arguments_of, end):
    return lambda calls: [f"{begin}{name}{middle}{arguments_of(arguments)}{end}" for name, arguments in calls]


# tool parser, reasoning parser, markers around reasoning (an empty first marker: the prompt contains it), one call,
# markers around all calls
FORMATS = {
    "qwen3_coder": (
        "qwen3_coder",
        "qwen3",
        "",
        "</think>",
        call_of("<tool_call>\n<function=", ">\n", QWEN, "</function>\n</tool_call>"),
        ("", ""),
        "</tool_call>",
    ),
    "nemotron_v3": (
        "qwen3_coder",
        "nemotron_v3",
        "",
        "</think>",
        call_of("<tool_call>\n<function=", ">\n", QWEN, "</function>\n</tool_call>"),
        ("", ""),
        "</tool_call>",
    ),
    "seed_oss": (
        "seed_oss",
        "seed_oss",
        "",
        "</seed:think>",
        call_of("<seed:tool_call>\n<function=", ">\n", QWEN, "</function>\n</seed:tool_call>"),
        ("", ""),
        "</seed:tool_call>",
    ),
    "glm47": (
        "glm47",
        "glm47",
        "",
        "</think>",
        call_of("<tool_call>", "", GLM, "</tool_call>"),
        ("", ""),
        "</tool_call>",
    ),
    "ling3": (
        "ling3",
        "ling3",
        "",
        "</think>",
        call_of("<tool_call>", "", GLM, "</tool_call>"),
        ("", ""),
        "</tool_call>",
    ),
    "minimax_m2": (
        "minimax_m2",
        "minimax_m2",
        "",
        "</think>",
        call_of('<invoke name="', '">', INVOKE, "</invoke>"),
        ("<minimax:tool_call>", "</minimax:tool_call>"),
        "</minimax:tool_call>",
    ),
    "minimax_m3": (
        "minimax_m3",
        "minimax_m3",
        "<mm:think>",
        "</mm:think>",
        call_of(']<]minimax[>[<invoke name="', '">', tree, "]<]minimax[>[</invoke>\n"),
        ("]<]minimax[>[<tool_call>\n", "]<]minimax[>[</tool_call>"),
        "]<]minimax[>[</tool_call>",
    ),
    "deepseek_v32": (
        "deepseek_v32",
        "deepseek_v3",
        "",
        "</think>",
        call_of('<｜DSML｜invoke name="', '">\n', dsml, "</｜DSML｜invoke>\n"),
        ("<｜DSML｜function_calls>\n", "</｜DSML｜function_calls>"),
        "</｜DSML｜function_calls>",
    ),
    "deepseek_v4": (
        "deepseek_v4",
        "deepseek_v4",
        "",
        "</think>",
        call_of('<｜DSML｜invoke name="', '">\n', dsml, "</｜DSML｜invoke>\n"),
        ("<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>"),
        "</｜DSML｜tool_calls>",
    ),
    "kimi_k2": (
        "kimi_k2",
        "kimi_k2",
        "<think>",
        "</think>",
        call_of("<|tool_call_begin|>functions.", ":0\n<|tool_call_argument_begin|>", json.dumps, "<|tool_call_end|>"),
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        "<|tool_calls_section_end|>",
    ),
    "gemma4": (
        "gemma4",
        "gemma4",
        "<|channel>thought\n",
        "<channel|>",
        call_of("<|tool_call>call:", "", gemma, "<tool_call|>"),
        ("", ""),
        "<tool_call|>",
    ),
}
# reasoning (None: its block is empty), text after it, calls, text after the calls
SAMPLES = {
    "content only": (None, "Hello! How can I help you today?", [], ""),
    "think, content": ("Let me think about this carefully.", "The answer is 42.", [], ""),
    "think, tool": ("Let me check the file.", "", [FILE], ""),
    "tool only": (None, "", [FILE], ""),
    "white space, tool": (None, "\n\n", [WEATHER], ""),
    "think, white space, tool": ("Let me check the file contents.", "\n\n", [FILE], ""),
    "think, content, tool": ("Let me analyze and then fetch data.", "Checking the weather now.", [WEATHER], ""),
    "think, tools": ("I need to run both commands.", "", [BASH, WEATHER], ""),
    "complex arguments": ("This needs a complex query.", "", [SEARCH], ""),
    "three tools": ("All.", "Three things.\n", [BASH, SEARCH, FILE], ""),
    "angle brackets": (
        "a < b > c",
        "x < 3 && y > 2 </",
        [("bash", {"command": 'cat <<EOF > f\n<a>{"x": [1]}</a>\nEOF', "description": "}]</x>"})],
        "",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_sample_gives_its_message(tmp_path, name):
    tool, reasoning, opens, ends, write, (section, section_end), last = FORMATS[name]
    lines, wanted = [], []
    for sample, (thought, text, calls, behind) in SAMPLES.items():
        written = write(calls)
        body = (f"{opens}{thought or ''}{ends}" if thought or not opens or opens == "<think>" else "") + text
        if calls:
            body += section + "".join(written) + section_end + behind
        expected = message(
            {
                "content": text.strip(),
                "reasoning_content": thought,
                "tool_calls": [{"name": n, "arguments": a} for n, a in calls],
            }
        )
        cuts = [body]
        if calls and body.endswith(last):
            cuts.append(body.removesuffix(last))
        for one in cuts:
            lines.append({"text": one, "tools": TOOLS, "starts_in_reasoning": None if opens else True})
            wanted.append((sample, one, expected))
    code, got, err = parse(tmp_path, lines, *flags_of(tool, reasoning), "--every-cut")
    assert code == 0, err
    wrong = [
        (sample, text, message(out), expected)
        for out, (sample, text, expected) in zip(got, wanted)
        if message(out) != expected
    ]
    assert not wrong, wrong[0]
