"""The programs under test. Each is started by `pagoda launch` if the launcher supports it, isolated from all other
servers, and given one task, which it does with one of its own tools."""

import dataclasses
import os
import pathlib
import subprocess
import sys
import typing

from conftest import binary

HERE = pathlib.Path(__file__).parent
SETUP = HERE.parents[2] / "script/setup"
MODEL, TASK, TEXT = "scripted", "Write hello.txt with a greeting.", "Hello.\n"
# All other connections of a program are refused at once on loopback.
NOWHERE = dict.fromkeys(
    ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"
)
LOOPBACK = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}


@dataclasses.dataclass
class Place:
    """The environment of a program: its server, HOME, working folder and Python environment."""

    url: str
    home: pathlib.Path
    work: pathlib.Path
    bin: pathlib.Path

    @property
    def file(self):
        return str(self.work / "hello.txt")

    def write(self, path, text):
        path = self.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclasses.dataclass
class Program:
    environment: str  # name of its requirements: environments/NAME.txt
    tool: str  # tool that writes a file; empty: the answer's text contains the file
    arguments: typing.Callable[[Place], dict]
    command: typing.Callable[[Place], list]
    variables: dict = dataclasses.field(default_factory=dict)
    text: str = ""  # answer of programs without a tool
    families: tuple = ("qwen3", "qwen35", "glm46", "gptoss", "devstral")  # families that it is tested with


def environment_bin(name):
    """Returns the environment's bin folder; None if its wheels cannot be installed."""
    cache = {"PAGODA_CACHE": str(pathlib.Path(sys.prefix).parent)}  # the tests use a different one
    found = subprocess.run(
        [SETUP, "--environment", HERE / f"environments/{name}.txt"],
        capture_output=True,
        text=True,
        env=os.environ | cache,
    )
    return pathlib.Path(found.stdout.strip()).parent if found.returncode == 0 else None


def launched(name, *arguments):
    """Returns a function that gives the command of `pagoda launch`, which passes the server and the model."""
    return lambda place: [binary(), "launch", name, "--url", place.url, "--", *arguments]


CODEX = ("exec", "--skip-git-repo-check", "-s", "danger-full-access", "-c", "analytics.enabled=false")


def codex_oss(provider):
    """Returns the same for Codex without the launcher, which looks for Ollama or LM Studio at the given URL."""
    return lambda place: [
        "env",
        f"CODEX_OSS_BASE_URL={place.url}/v1",
        "codex",
        *CODEX,
        "-m",
        MODEL,
        "--oss",
        "--local-provider",
        provider,
        TASK,
    ]


def llm(place):
    place.write(
        "tools.py",
        'import pathlib\n\ndef write_file(path: str, content: str) -> str:\n    """Writes a file."""\n'
        '    pathlib.Path(path).write_text(content)\n    return "written"\n',
    )
    return launched(
        "llm", "--functions", place.home / "tools.py", "--system", "You write files with your tool alone.", TASK
    )(place)


def task(name, *arguments):
    return lambda place: [place.bin / "python", HERE / f"tasks/{name}.py", place.url, MODEL, *arguments, TASK]


def path_and_content(place):
    return {"path": place.file, "content": TEXT}


def greeting(_):
    return {"cmd": "echo Hello. > hello.txt"}


PROGRAMS = {
    "claude": Program(
        "claude",
        "Write",
        lambda place: {"file_path": place.file, "content": TEXT},
        launched("claude", "-p", TASK, "--permission-mode", "acceptEdits"),
        {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    ),
    "codex": Program("codex", "exec_command", greeting, launched("codex", *CODEX, TASK)),
    "codex-oss": Program("codex", "exec_command", greeting, codex_oss("ollama"), families=("gptoss",)),
    "codex-lmstudio": Program("codex", "exec_command", greeting, codex_oss("lmstudio"), families=("gptoss",)),
    "vibe": Program(
        "vibe",
        "write_file",
        path_and_content,
        launched("vibe", "--trust", "--auto-approve", "-p", TASK),
        {"VIBE_ENABLE_TELEMETRY": "false", "VIBE_ENABLE_UPDATE_CHECKS": "false", "VIBE_ENABLE_AUTO_UPDATE": "false"},
    ),
    "hermes": Program(
        "hermes", "write_file", path_and_content, launched("hermes", "chat", "--quiet", "--yolo", "--query", TASK)
    ),
    "gptme": Program(
        "gptme",
        "save",
        path_and_content,
        launched("gptme", "--non-interactive", "--tool-format", "tool", "--tools", "save,shell", TASK),
    ),
    "aider": Program(
        "aider",
        "",
        lambda place: {},
        launched(
            "aider",
            "--yes-always",
            "--no-git",
            "--no-check-update",
            "--analytics-disable",
            "--no-show-release-notes",
            "--edit-format",
            "whole",
            "--message",
            TASK,
            "hello.txt",
        ),
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        text=f"hello.txt\n```\n{TEXT}```\n",
        families=("qwen3", "devstral"),
    ),
    "llm": Program("llm", "write_file", path_and_content, llm, families=("qwen3", "devstral")),
    "openai-agents-chat": Program("sdks", "write_file", path_and_content, task("openai_agents", "chat")),
    "openai-agents-responses": Program("sdks", "write_file", path_and_content, task("openai_agents", "responses")),
    "pydantic-ai-chat": Program("sdks", "write_file", path_and_content, task("pydantic_ai_agent", "chat")),
    "pydantic-ai-responses": Program("sdks", "write_file", path_and_content, task("pydantic_ai_agent", "responses")),
    "pydantic-ai-messages": Program("sdks", "write_file", path_and_content, task("pydantic_ai_agent", "messages")),
    "qwen-agent": Program("qwen", "write_file", path_and_content, task("qwen_agent_task")),
}


def executables(bin_folder):
    """Returns the search path for programs that wheels install: next to Python, or among the wheel's own files."""
    packages = next((bin_folder.parent / "lib").glob("python3*/site-packages"))
    return ":".join(map(str, [bin_folder, packages / "codex_cli_bin/bin", packages / "claude_agent_sdk/_bundled"]))


def run(program, place, timeout_s=120):
    environment = {
        "PATH": f"{executables(place.bin)}:{os.environ['PATH']}",
        "HOME": str(place.home),
        "PAGODA_CACHE": str(place.home / "pagoda"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        **NOWHERE,
        **LOOPBACK,
        "DO_NOT_TRACK": "1",
        **program.variables,
    }
    return subprocess.run(
        [str(word) for word in program.command(place)],
        cwd=place.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
    )
