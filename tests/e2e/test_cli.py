"""The command line: help, mistakes, exit codes. No model is loaded."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from conftest import Server, small_model

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PAGODA_BINARY", str(ROOT / "build/pagoda"))


def run(*arguments, stdin="", **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PAGODA_", "VLLM_", "OMP_"))}
    done = subprocess.run(
        [BINARY, *arguments],
        env={**clean, **environment},
        timeout=60,
        input=stdin,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def commands():
    listed = run("--help")[1].split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def test_version():
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"pagoda \d+\.\d+\.\d+\n", out)


def test_help_and_version_as_words():
    assert run("version") == run("--version")
    assert run("help") == run("--help") and run("help", "bench", "serve") == run("bench", "serve", "--help")
    assert run("help")[0] == 0


def test_every_command_of_the_readme_is_there():
    assert {"serve", "chat", "generate", "perplexity", "bench", "inspect", "tokenize", "render", "doctor"} <= set(
        commands()
    )


def test_every_command_has_help():
    for command in commands():
        code, out, err = run(command, "--help")
        assert (code, err) == (0, ""), command
        assert out.startswith(f"Usage: pagoda {command}")


@pytest.mark.parametrize("command", [["serve"], ["generate"], ["bench", "latency"], ["bench", "throughput"]])
def test_engine_commands_share_their_flags(command):
    out = run(*command, "--help")[1]
    for flag in (
        "--host",
        "--port",
        "--dtype",
        "--kv-cache-dtype",
        "--kv-cache-memory-bytes",
        "--block-size",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--max-model-len",
        "--threads",
        "--[no-]enable-prefix-caching",
        "--[no-]enable-chunked-prefill",
        "--seed",
        "--api-key",
        "--served-model-name",
    ):
        assert flag in out


@pytest.mark.parametrize("page", ["flags", "peer-flags", "commands", "models"])
def test_the_pages_are_made_from_the_declarations(page):
    made = run("man", "--markdown", page)[1]
    assert (ROOT / f"docs/{page}.md").read_text() == made, f"stale: build/pagoda man --markdown {page} > docs/{page}.md"


def test_every_flag_stands_on_a_page():
    pages = (ROOT / "docs/flags.md").read_text() + (ROOT / "docs/commands.md").read_text()
    for command in commands():
        for line in run(command, "--help")[1].splitlines():
            for flag in re.findall(r"^  (?:-\w, )?(--[\w\[\]-]+)", line):
                assert flag in pages or flag == "--help", f"{command} {flag}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_scripts_that_the_shell_reads(shell, tmp_path):
    script = run("completion", shell)[1]
    assert "--max-model-len" in script or "-l max-model-len" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here: its completions are not read")
    (tmp_path / "pagoda").write_text(script)
    assert subprocess.run([shell, "-n", tmp_path / "pagoda"], capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize(
    "typed, offered",
    [
        ("pagoda ser", {"serve"}),
        ("pagoda bench ser", {"serve"}),
        ("pagoda serve --max-model", {"--max-model-len"}),
        ("pagoda serve --dtype fl", {"float16", "float32"}),
        ("pagoda serve --no-enable-pre", {"--no-enable-prefix-caching"}),
        ("pagoda bench serve --burst", {"--burstiness"}),
    ],
)
def test_bash_completes(typed, offered, tmp_path):
    (tmp_path / "c").write_text(run("completion", "bash")[1])
    words = typed.split()
    ask = (
        f"source {tmp_path}/c; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _pagoda; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert set(subprocess.run(["bash", "-c", ask], capture_output=True, text=True).stdout.split()) == offered


def test_man_pages_are_clean(tmp_path):
    assert run("man", "--output", str(tmp_path)) == (0, "", "")
    pages = sorted(tmp_path.iterdir())
    assert {"pagoda.1", "pagoda-serve.1", "pagoda-bench-serve.1"} <= {page.name for page in pages}
    assert run("man", "bench-serve")[1] == (tmp_path / "pagoda-bench-serve.1").read_text()
    if shutil.which("mandoc") is None:
        pytest.skip("no mandoc here: the pages are not linted")
    # Allowed: a missing date, which would make the pages differ between builds, and long lines.
    linted = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], capture_output=True, text=True).stdout
    assert [line for line in linted.splitlines() if "missing date" not in line] == []


def test_a_file_of_flags(tmp_path):
    config = tmp_path / "serve.yaml"

    def check(text):
        config.write_text(text)
        code, out, err = run("config", "check", str(config))
        return (code, (out + err).replace(str(config), "FILE"))

    assert check(
        "model: m\nmax_model_len: 8k\nenable-prefix-caching: false\nserved-model-name: [a, b]\n"
        "speculative-config: {method: ngram, num_speculative_tokens: 5}\n"
    ) == (0, "FILE: 5 flags, each known to pagoda serve\n")
    assert check("port: 1\nprot: 2\n") == (2, "pagoda: FILE:2: unknown key 'prot'; did you mean port?\n")
    assert check("port: 1\n\nport: 2\n") == (2, "pagoda: FILE:3: 'port' was already set on line 1\n")
    assert check("tp: 1\ntensor_parallel_size: 2\n")[1].startswith(
        "pagoda: FILE:2: 'tensor_parallel_size' was already set"
    )
    assert check("block-size: 0\n") == (2, "pagoda: FILE:1: block-size: 0 is not between 1 and 256\n")
    assert check("access-log: maybe\n") == (2, "pagoda: FILE:1: 'access-log' must be true or false\n")
    assert check("port: [1, 2]\n") == (2, "pagoda: FILE:1: 'port' takes one value, not a list\n")
    assert check("device: tpu\n")[0] == 2
    assert check("a: [\n")[0] == 2 and check("- a\n")[0] == 2
    assert check("") == (0, "FILE: 0 flags, each known to pagoda serve\n")
    assert run("serve", "--config", str(tmp_path / "none.yaml"))[0] == 2


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(tmp_path):
    config = tmp_path / "f.yaml"
    config.write_text("model: /of-file\n")

    def model(*arguments, **environment):
        return run("serve", *arguments, **{"PAGODA_MODEL": "", **environment})[2]

    assert "/of-file" in model("--config", str(config))
    assert "/of-file" in model(PAGODA_CONFIG=str(config))
    assert "/of-environment" in model("--config", str(config), PAGODA_MODEL="/of-environment")
    assert "/of-line" in model("/of-line", "--config", str(config), PAGODA_MODEL="/of-environment")
    assert model(PAGODA_PORT="70000") == "pagoda: PAGODA_PORT: 70000 is not between 0 and 65535\n"
    assert model(PAGODA_ACCESS_LOG="maybe") == "pagoda: PAGODA_ACCESS_LOG: 'maybe' is neither true nor false\n"
    assert "PAGODA_PROT sets nothing; did you mean PAGODA_PORT?" in model("/nowhere", PAGODA_PROT="1")


def test_text_is_typed_or_piped(tmp_path):
    model = str(small_model())
    ids = run("tokenize", model, "Hello there")[1]
    assert ids.startswith('{"ids": [')
    assert run("tokenize", model, stdin="Hello there\n")[1] == ids
    assert run("tokenize", "--decode", model, ids[9:-3])[1] == '{"text": "Hello there"}\n'
    code, typed, err = run("generate", model, "Once upon a time", "--max-tokens", "4", "--seed", "1")
    assert code == 0 and typed.strip(), err
    assert run("generate", "--model", model, "Once", "--max-tokens", "2")[0] == 0
    assert run("generate", model, "--max-tokens", "2", stdin="Once upon a time")[0] == 0
    assert run("generate", "Once", "--max-tokens", "2", PAGODA_MODEL=model)[0] == 0
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}")
    assert (
        run("run", model, "Hello", "--chat-template", str(template), "--max-tokens", "4", "--temperature", "0")[0] == 0
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["serv"], "unknown command 'serv'; did you mean serve?"),
        (["serve", "--prot", "1"], "unknown flag --prot; did you mean --port?"),
        (["serve", "--port"], "--port needs a value"),
        (["serve", "--port", "70000"], "--port: 70000 is not between 0 and 65535"),
        (["serve", "--kv_cache_memory_bytes", "much"], "--kv-cache-memory-bytes: 'much' is not a whole number"),
        (["serve", "--lora-modules", "a"], "--lora-modules: 'a' is not NAME=PATH"),
        (["serve", "--middleware", "a.b"], "--middleware: the server runs no Python code"),
        (["run"], "no text given: type one in quotes, or pipe it in"),
        (["serve", "a", "b"], "unexpected argument 'b'; see pagoda serve --help"),
        (["generate"], "no text given: type one in quotes, or pipe it in, or --input FILE"),
        (["serve", "-np", "0"], "--max-num-seqs: 0 is less than 1"),
        (["serve", "--lora-scaled", "x"], "--lora-scaled: 'x' is not PATH:SCALE"),
        (
            ["serve", "--load-format", "tensorizer"],
            "--load-format: 'tensorizer' is not supported: weights are read as stored",
        ),
        (["serve", "--port", "70000", "--port", "1", "--block-size", "0"], "--block-size: 0 is not between 1 and 256"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message):
    assert run(*arguments) == (2, "", f"pagoda: {message}\n")


def test_a_folder_is_no_input(tmp_path):
    (tmp_path / "t.jinja").write_text("x")
    code, out, error = run("render", "--template", str(tmp_path / "t.jinja"), "--input", str(tmp_path))
    assert (code, out, error) == (2, "", f"pagoda render: cannot read {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("command", [["serve"], ["bench", "latency"], ["doctor"]])
def test_a_model_that_is_not_there(command):
    code, out, err = run(*command, "/nonexistent\nmodel.gguf")
    assert code == 2
    assert err.startswith("pagoda: ") and err.count("\n") == 1
    assert "/nonexistent" in err


def test_run_takes_a_text_alone(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}")
    more = ["--chat-template", str(template), "--max-tokens", "4", "--temperature", "0"]
    with_model = run("run", str(small_model()), "What is 2+2?", *more)
    assert with_model[0] == 0 and with_model[1].strip()
    assert run("run", "What is 2+2?", *more, PAGODA_MODEL=str(small_model())) == with_model
    assert "nowhere" in run("run", "nowhere.gguf", *more, stdin="x")[2]


def test_ps_and_stop():
    server = Server(small_model(), "--served-model-name", "of-this-test")
    rows = [one for one in json.loads(run("ps", "--json")[1]) if one["pid"] == server.process.pid]
    assert [(one["model"], one["address"]) for one in rows] == [("of-this-test", server.url.removeprefix("http://"))]
    assert rows[0]["memory"] > 1 << 20
    assert run("stop", "no-such-server")[0] == 2
    assert run("stop", str(server.process.pid))[0] == 0
    assert server.process.wait(60) == 0
    server.stop()


def test_man_pages_go_into_a_folder_that_is_made(tmp_path):
    assert run("man", "--output", str(tmp_path / "a/man1"))[0] == 0
    assert (tmp_path / "a/man1/pagoda.1").exists()


def test_parse_says_which_formats_a_template_has(tmp_path):
    template = tmp_path / "t.jinja"
    template.write_text("{{ '<tool_call>' }}<function={{ name }}><parameter=a>")
    code, out, _ = run("parse", "--template", str(template))
    assert code == 0 and out.startswith("auto: --tool-call-parser qwen3_coder")
    assert run("parse") == (2, "", "pagoda parse: give --input, --template or both\n")


def test_without_the_default_model_the_message_says_how_to_get_it(tmp_path):
    code, out, err = run("serve", PAGODA_CACHE=str(tmp_path))
    assert code == 2
    assert str(tmp_path) in err and "script/model" in err and err.count("\n") == 1


def test_nothing_to_do_shows_help_and_fails():
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: pagoda COMMAND")
