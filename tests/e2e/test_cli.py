"""The command line as a person meets it: help, mistakes, exit codes. No model is loaded."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PAGODA_BINARY", str(ROOT / "build/pagoda"))


def run(*arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PAGODA_", "VLLM_", "OMP_"))}
    done = subprocess.run([BINARY, *arguments], env={**clean, **environment}, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stdout, done.stderr


def commands():
    listed = run("--help")[1].split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def test_version():
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"pagoda \d+\.\d+\.\d+\n", out)


def test_every_command_of_the_readme_is_there():
    assert {"serve", "chat", "generate", "perplexity", "bench", "inspect", "tokenize", "render",
            "doctor"} <= set(commands())


def test_every_command_has_help():
    for command in commands():
        code, out, err = run(command, "--help")
        assert (code, err) == (0, ""), command
        assert out.startswith(f"Usage: pagoda {command}")


@pytest.mark.parametrize("command", [["serve"], ["generate"], ["bench", "latency"], ["bench", "throughput"]])
def test_engine_commands_share_their_flags(command):
    out = run(*command, "--help")[1]
    for flag in ("--host", "--port", "--dtype", "--kv-cache-dtype", "--kv-cache-memory-bytes", "--block-size",
                 "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--threads",
                 "--[no-]enable-prefix-caching", "--[no-]enable-chunked-prefill", "--seed", "--api-key",
                 "--served-model-name"):
        assert flag in out


def test_the_flags_page_has_every_flag_and_default():
    page = (ROOT / "docs/flags.md").read_text()
    for command in commands():
        for line in run(command, "--help")[1].splitlines():
            for flag in re.findall(r"^  (?:-\w, )?(--[\w\[\]-]+)", line):
                assert flag in page or flag == "--help", f"{command} {flag} is not in docs/flags.md"
    for line in run("serve", "--help")[1].splitlines():
        if match := re.match(r"  (--[\w-]+).*\[(\d+|[a-z]+)\]$", line):
            flag, default = match.groups()
            row = next(row for row in page.splitlines() if row.startswith("| `" + flag))
            documented = row.split("|")[2].strip()
            sizes = {"33554432": "32 MiB", "65536": "64 KiB"}
            assert documented == sizes.get(default, default), flag


@pytest.mark.parametrize("arguments, message", [
    (["serv"], "unknown command 'serv'; did you mean serve?"),
    (["serve", "--prot", "1"], "unknown flag --prot; did you mean --port?"),
    (["serve", "--port"], "--port needs a value"),
    (["serve", "--port", "70000"], "--port: 70000 is not between 0 and 65535"),
    (["serve", "--kv_cache_memory_bytes", "much"], "--kv-cache-memory-bytes: 'much' is not a whole number"),
    (["serve", "--trust-remote-code"], "--trust-remote-code: code from a model's folder is never run"),
    (["serve", "a", "b"], "unexpected argument 'b'"),
    (["generate"], "--input is required"),
])
def test_a_mistake_is_one_line_and_exit_code_2(arguments, message):
    assert run(*arguments) == (2, "", f"pagoda: {message}\n")


def test_a_folder_is_no_input(tmp_path):
    (tmp_path / "t.jinja").write_text("x")
    code, out, error = run("render", "--template", str(tmp_path / "t.jinja"), "--input", str(tmp_path))
    assert (code, out, error) == (2, "", f"pagoda render: cannot read {tmp_path}\n")


@pytest.mark.parametrize("command", [["serve"], ["bench", "latency"], ["doctor"]])
def test_a_model_that_is_not_there(command):
    code, out, err = run(*command, "/nonexistent\nmodel.gguf")
    assert code == 2
    assert err.startswith("pagoda: ") and err.count("\n") == 1
    assert "/nonexistent" in err


def test_without_the_default_model_the_message_says_how_to_get_it(tmp_path):
    code, out, err = run("serve", PAGODA_CACHE=str(tmp_path))
    assert code == 2
    assert str(tmp_path) in err and "script/model" in err and err.count("\n") == 1


def test_nothing_to_do_shows_help_and_fails():
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: pagoda COMMAND")
