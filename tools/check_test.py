"""tools/check finds each kind of error, and reports nothing for a clean tree."""

import pathlib
import subprocess
import sys

import pytest

CHECK = pathlib.Path(__file__).with_name("check")
TABLE = """# x
| src/… | what | may include |
|---|---|---|
| `cli/` | flags | all |
| `server/` | http | text, `engine/client.h` |
| `text/` | tokens | – |
| `models/` | layers | – |
| `api/` | shared | text |
| `api/openai/` | a protocol | api |
| `up/` | one half of a circle | down |
| `down/` | the other | up |
"""
CLEAN = {
    "docs/ARCHITECTURE.md": TABLE,
    "src/text/tokenizer.h": '#pragma once\n#include "base/status.h"\n#include "text/other.h"\n',
    "src/text/other.h": "#pragma once\nnamespace pagoda {\nclass Other final {\n};\n}  // namespace pagoda\n",
    "src/text/mine.cc": (
        "namespace pagoda {\nnamespace {\nstruct Other {\n};\nbool mine(char c) {\n}\n}  // namespace\n"
        "class Unlike;\n}  // namespace pagoda\n"
    ),
    "src/CMakeLists.txt": "pagoda_library(text DEPS base ALONE apart /forms/)\n",
    "src/text/apart.cc": "namespace {\nbool mine(char c) {\n}\n}  // namespace\n",
    "src/text/forms/a.cc": "namespace {\nbool mine(char c) {\n}\n}  // namespace\n",
    "src/server/server.cc": '#include <vector>\n#include "engine/client.h"\n#include "text/tokenizer.h"\n',
    "src/api/json.h": '#pragma once\n#include "text/tokenizer.h"\n',
    "src/api/openai/parser.cc": '#include "api/json.h"\n#include "api/openai/parser.h"\n',
    "src/api/fields/a.cc": '#include "api/json.h"\n#include "text/other.h"\n',
    "src/models/decoder/kept_weights.cc": "void f(float* x) { memcpy(x, x + 1, 4); }\n",
    "src/models/decoder/part_test.cc": "const float* x = floats(buffer);\n",
    "src/down/a.cc": '#include "up/a.h"\n',
    "src/cli/cli.cc": '#include "server/server.h"\n#include "engine/engine.h"\n',
    "src/text/tokenizer_test.cc": '#include "server/server.h"\n',
    "README.md": "Puts it into ~/.cache/pagoda, or /usr/lib; see https://host/home/page/x.\n",
}


def run(root, changes):
    for name, text in {**CLEAN, **changes}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    done = subprocess.run(
        [sys.executable, CHECK],
        env={"PAGODA_CHECK_ROOT": str(root), "PATH": "/nowhere"},
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.returncode, done.stdout


def test_clean_tree(tmp_path):
    assert run(tmp_path, {}) == (0, "")


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("src/text/a.cc", '#include "server/server.h"\n', "src/text/a.cc:1: text/ may not include"),
        ("src/server/a.cc", '\n #  include "engine/engine.h"\n', "src/server/a.cc:2: server/ may not include"),
        ("src/api/a.cc", '#include "api/openai/parser.h"\n', 'src/api/a.cc:1: api/ may not include "api/openai'),
        ("src/api/openai/a.cc", '#include "text/other.h"\n', "src/api/openai/a.cc:1: api/openai/ may not include"),
        ("src/up/a.cc", '#include "down/a.h"\n', "rooms include each other in a circle: down -> up -> down"),
        ("src/text/a.cc", '#include "../cli/cli.h"\n', "name the header from src/"),
        ("src/new/a.cc", '#include "text/tokenizer.h"\n', "folder new/ is not in the include table"),
        ("src/text/a.h", "int f();\n", "src/text/a.h: no #pragma once"),
        ("tests/fuzz/a_fuzz.cc", "// Any bytes. links: text\n", "tests/fuzz/a_fuzz.cc: no line '// links: FOLDER"),
        (
            "src/cli/a.cc",
            'Flag f{.name = "x",\n       .help =\n           "of the answer"};\n',
            "src/cli/a.cc:2: a help text begins",
        ),
        ("docs/a.md", "see /ho" + "me/someone/notes\n", "docs/a.md:1: a path of one machine"),
        ("docs/ARCHITECTURE.md", "nothing\n", "no table"),
        (
            "src/server/b.cc",
            "int f(int n) { return n / kv.block_size(); }\n",
            "src/server/b.cc:1: divides by a block size",
        ),
        (
            "src/models/decoder/part.cc",
            "void f() { for_tiles(context, 1, body); }\n",
            "src/models/decoder/part.cc:1: for_tiles: activations are a Buffer here",
        ),
        (
            "src/models/decoder/other.h",
            "#pragma once\nvoid f(const float* x);\n",
            "src/models/decoder/other.h:2: float*: activations",
        ),
        (
            "src/device/kernels/a.cuh",
            "#pragma once\n__global__ void add(AddArgs args) { begin_kernel(); }\n"
            "__global__ void __launch_bounds__(32 * kWarps, 2) take(AddArgs args) {\n  args.x[0] = 1;\n}\n",
            "src/device/kernels/a.cuh:3: take does not begin with begin_kernel()",
        ),
        (
            "src/device/kernels/b.cuh",
            "#pragma once\ntemplate <class T>\n__device__ void f(const A& args) {\n  begin_kernel();\n}\n"
            "__device__ void g(const A& args) {\n  f<float>(args);\n}\n"
            "__global__ void by_f(A args) {\n  f<float>(args);\n}\n__global__ void by_g(A args) { g(args); }\n",
            "src/device/kernels/b.cuh:12: by_g does not begin with begin_kernel()",
        ),
        (
            "src/text/b.cc",
            "namespace pagoda {\nstruct Other : Base {\n};\n}  // namespace pagoda\n",
            "src/text/other.h:3: pagoda::Other is already defined in src/text/b.cc:2",
        ),
        ("docs/a.md", "The client is told of it.\n", "docs/a.md:1: 'is told': say it in plain technical English"),
        (
            "src/text/parts.cc",
            "namespace pagoda {\nnamespace {\nint mine(int x) {\n}\n}  // namespace\n}  // namespace pagoda\n",
            "src/text/parts.cc:3: mine() is in src/text/mine.cc:5, too, and both may be compiled as one file",
        ),
        (
            "src/text/bits/b.cc",
            "namespace pagoda {\nnamespace {\nint mine(int x) {\n}\n}  // namespace\n}  // namespace pagoda\n",
            "src/text/mine.cc:5: mine() is in src/text/bits/b.cc:3, too, and both may be compiled as one file",
        ),
        (
            "src/text/c.cc",
            "// A stream that ends early is\n// gone on with later.\nint x;\n",
            "src/text/c.cc:2: 'gone on with': say what is called, reported or resumed",
        ),
    ],
)
def test_finds(tmp_path, name, text, message):
    code, output = run(tmp_path, {name: text})
    assert code == 1
    assert message in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    "subject, body, message",
    [
        ("Mend the queue", "It lost jobs.", ""),
        ("x" * 73, "Why.", "has 73 characters"),
        ("wip: the queue", "Why.", "is unfinished work"),
        ("Mend the queue (issue 12)", "Why.", "names an issue"),
        ("Mend the queue, #12", "Why.", "names an issue"),
        ("Mend the queue.", "Why.", "ends in a full stop"),
        ("Mend the queue", "", "no body"),
    ],
)
def test_commit_messages(tmp_path, subject, body, message):
    def git(*words):
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *words],
            check=True,
            stdout=subprocess.PIPE,
        )

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "wip")  # before the base, so it is not checked
    head = subprocess.run(
        ["git", "-C", tmp_path, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    git("commit", "-q", "--allow-empty", "-m", subject, "-m", body)
    for name, text in {**CLEAN, "tools/history_base": head}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, CHECK],
        env={"PAGODA_CHECK_ROOT": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert (message in done.stdout) and done.returncode == (1 if message else 0), done.stdout


def test_shallow_clone_is_skipped_aloud(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name, text in {**CLEAN, "tools/history_base": "0" * 40 + "\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, CHECK],
        env={"PAGODA_CHECK_ROOT": str(tmp_path), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0 and "skipped: commit messages" in done.stdout
