"""`pagoda launch`: a stand-in for each program prints its arguments and environment."""

import json
import os
import subprocess
import sys

import pytest
from conftest import binary, serving, small_model

PROGRAMS = ["claude", "codex", "vibe", "hermes", "gptme", "aider", "llm", "opencode", "qwen"]
STAND_IN = (
    f"#!{sys.executable}\nimport json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open(os.environ['SAID'],"
    " 'w'))\nsys.exit(7)\n"
)


@pytest.fixture(scope="module")
def server():
    with serving(
        small_model(), "--served-model-name", "small", "org/other", "claude-*", "--api-key", "s3cret"
    ) as running:
        yield running


class Launcher:
    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        (folder / "bin").mkdir()
        for name in PROGRAMS:
            (folder / "bin" / name).write_text(STAND_IN)
            (folder / "bin" / name).chmod(0o755)

    def __call__(self, *words, key="s3cret", path=True):
        environment = {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin" if path else "/nowhere",
            "HOME": str(self.folder),
            "PAGODA_CACHE": str(self.folder / "cache"),
            "SAID": str(self.folder / "said"),
            "PAGODA_API_KEY": key,
            "PAGODA_URL": self.url,
        }
        return subprocess.run([binary(), "launch", *words], capture_output=True, text=True, timeout=60, env=environment)

    def said(self):
        return json.loads((self.folder / "said").read_text())


@pytest.fixture
def launch(server, tmp_path):
    return Launcher(tmp_path, server.url)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_started_with_its_arguments_and_told_the_server(launch, server, name):
    done = launch(name, "--", "-x", "--under_score", "two words")
    assert done.returncode == 7, done.stderr  # the exit code of the program, which has replaced pagoda
    arguments, environment = launch.said()
    at = arguments.index("-x")
    assert arguments[at : at + 3] == ["-x", "--under_score", "two words"]
    if name == "codex":  # its subcommands read only the arguments after them
        assert at == 0 and 'model="small"' in arguments
    else:
        assert at == len(arguments) - 3
    files = "".join(path.read_text() for path in (launch.folder / "cache").rglob("*") if path.is_file())
    told = json.dumps([arguments, environment]) + files
    assert server.url in told and "small" in told and "s3cret" in told
    for path in (launch.folder / "cache/launch").glob("*"):
        assert path.stat().st_mode & 0o077 == 0, "a key may be read by others"


def test_a_model_may_be_any_that_the_server_takes(launch):
    for model in ["org/other", "claude-haiku"]:
        assert launch("claude", "--model", model).returncode == 7
        assert launch.said()[1]["ANTHROPIC_MODEL"] == model
    done = launch("claude", "--model", "gpt-9")
    assert done.returncode == 2 and "`gpt-9` does not exist" in done.stderr


def test_print_shows_what_a_shell_would_run(launch, server):
    done = launch("vibe", "--print", "--", "a b", "it's")
    assert done.returncode == 0 and not (launch.folder / "cache/launch").exists()
    shown = done.stdout.splitlines()
    assert shown[0].endswith("launch/vibe/config.toml:") and f'# api_base = "{server.url}/v1"' in shown
    assert shown[-1] == r"vibe 'a b' 'it'\''s'"
    done = launch("claude", "--print", "--", "-p", "hi")
    code = subprocess.run(
        ["sh", "-c", done.stdout],
        env={**os.environ, "PATH": f"{launch.folder / 'bin'}:/usr/bin:/bin", "SAID": str(launch.folder / "said")},
    )
    assert code.returncode == 7
    arguments, environment = launch.said()
    assert arguments == ["-p", "hi"] and environment["ANTHROPIC_BASE_URL"] == server.url
    assert environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "512"


@pytest.mark.parametrize(
    "words, key, path, problem",
    [
        (["claude", "--url", "http://127.0.0.1:1"], "s3cret", True, "pagoda serve MODEL"),
        (["claude", "--url", "box"], "s3cret", True, "is not http://HOST:PORT"),
        (["claude"], "wrong", True, "401"),
        (["aider"], "s3cret", False, "pip install aider-chat"),
        (["emacs"], "s3cret", True, "emacs"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(launch, words, key, path, problem):
    done = launch(*words, key=key, path=path)
    assert done.returncode == 2 and problem in done.stderr and done.stderr.count("\n") == 1, done.stderr
