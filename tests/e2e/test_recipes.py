"""Each diff of examples/policies applies to this tree, and the files that it touches compile. A kind of policy that is
not handled everywhere does not compile. The compiler commands are those of the build of the program."""

import json
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import ROOT, binary

ROOMS = ("scheduler", "kv_cache", "routing", "sim")
# The file that creates the object named in a row.
MAKERS = {
    "src/scheduler/scheduling_policies.def": "src/scheduler/admission_order.cc",
    "src/scheduler/preemption_policies.def": "src/scheduler/preemption_policy.cc",
    "src/kv_cache/eviction_policies.def": "src/kv_cache/eviction_order.cc",
    "src/routing/routers.def": "src/routing/router.cc",
}


def recipes():
    """Returns {recipe: its diff}, from the rows of docs/recipes.md."""
    page = (ROOT / "docs/recipes.md").read_text()
    rows = re.findall(r"^\| (an? .*?) \| \[.*?\]\(\.\./(\S+\.diff)\)", page, re.M)
    return {recipe: (ROOT / name).read_text() for recipe, name in rows}


def commands():
    path = binary().resolve().parent / "compile_commands.json"
    if not path.exists():
        pytest.skip(f"no {path}: the program under test was not built here")
    return {entry["file"]: entry for entry in json.loads(path.read_text())}


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    for room in ROOMS:
        shutil.copytree(ROOT / "src" / room, tmp_path / "src" / room)
    return tmp_path


def without_precompiled_headers(words):
    """Removes the flags of precompiled headers, which contain headers of ROOT. Each flag follows an -Xclang."""
    out, words = [], iter(words)
    for word in words:
        if word != "-Xclang":
            out.append(word)
        elif (passed := next(words)) in ("-include-pch", "-include"):
            next(words), next(words)  # the -Xclang and the file
        else:
            out += ["-Xclang", passed]
    return out


def compiled(tree, name):
    """Compiles a file of the tree, or of ROOT with the tree's headers, without writing an object file."""
    known = commands()
    # A new file is compiled with the command of another file in its folder.
    room = name.split("/")[1]
    entry = known.get(str(ROOT / name)) or next(
        known[file] for file in sorted(known) if f"/pagoda_{room}.dir/" in known[file]["command"]
    )
    path = tree / name if (tree / name).exists() else ROOT / name
    words = [str(path) if word == entry["file"] else word for word in shlex.split(entry["command"])]
    words = without_precompiled_headers(words)
    words[words.index("-o") + 1] = "/dev/null"
    words.insert(words.index("-c"), "-fsyntax-only")
    words.insert(next(i for i, word in enumerate(words) if word.startswith("-I")), f"-I{tree}/src")
    return subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, timeout=600)


def test_every_kind_has_its_recipe():
    kinds = ["scheduling policy", "admission order", "preemption policy", "eviction policy", "router", "cost model"]
    assert [recipe.split(" ", 1)[1] for recipe in recipes()] == kinds
    assert len(list(ROOT.glob("examples/policies/*"))) == len(kinds)


@pytest.mark.parametrize("recipe", recipes())
def test_the_diff_applies_and_compiles(tree, recipe):
    diff = recipes()[recipe]
    done = subprocess.run(["git", "apply", "-v", "-"], cwd=tree, input=diff, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    touched = re.findall(r"^\+\+\+ b/(\S+)$", diff, re.M)
    for name in touched:
        assert (tree / name).read_text() != ((ROOT / name).read_text() if (ROOT / name).exists() else "")
        done = compiled(tree, MAKERS.get(name, name))
        assert done.returncode == 0, done.stderr
    # One file and a row; a GPU is only a row.
    assert len(touched) == (1 if recipe == "a cost model" else 2)


@pytest.mark.parametrize(
    "header, kind, users",
    [
        (
            "scheduler/admission_order.h",
            "enum class QueueOrder : std::uint8_t { arrival, rank, turns",
            ["engine/queue_forecast.cc", "engine/engine_thread.cc"],
        ),
        (
            "scheduler/preemption_policy.h",
            "enum class Recovery : std::uint8_t { either, swapped, recomputed",
            ["cli/assembly/memory_modes.cc", "sim/fault_run.cc"],
        ),
    ],
    ids=["queue forecast and admission gate", "flags and fault runs"],
)
def test_a_kind_that_is_not_known_everywhere_does_not_compile(tree, header, kind, users):
    path = tree / "src" / header
    assert kind in path.read_text()
    path.write_text(path.read_text().replace(kind, kind + ", by_lot"))
    for user in users:
        done = compiled(tree, f"src/{user}")
        assert done.returncode != 0 and "by_lot" in done.stderr, done.stderr


def test_a_row_of_an_unknown_kind_does_not_compile(tree):
    with (tree / "src/scheduler/scheduling_policies.def").open("a") as rows:
        rows.write("PAGODA_SCHEDULING_POLICY(lottery, by_lot)\n")
    done = compiled(tree, "src/scheduler/admission_order.cc")
    assert done.returncode != 0 and "by_lot" in done.stderr, done.stderr
