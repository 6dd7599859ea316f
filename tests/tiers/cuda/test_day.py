"""`bench/gpu/day` without a GPU: what it packs, and that a run leaves its files whatever fails."""

import json
import os
import pathlib
import re
import subprocess
import tarfile

import pytest
from test_tune import PROGRAMS

ROOT = pathlib.Path(__file__).resolve().parents[3]
DAY = ROOT / "bench/gpu/day"
PACKED = ["pagoda", "libpagoda_kv.so", *(f"src/{name}" for name in ("device_test", "device_runner_test"))]
PACKED += [f"bench/{name}" for name in ("device_bench", "products_bench", "attention_bench", "step_profile")]


def build_of(folder, without=""):
    for name in PACKED:
        if name == without:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        script = "exit 3" if name == "bench/attention_bench" else PROGRAMS.get(path.name, "exit 3")
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
    return folder


def day(*command, **how):
    return subprocess.run([DAY, *map(str, command)], capture_output=True, text=True, timeout=120, **how)


def test_all_that_is_needed_is_packed(tmp_path):
    build, variants = build_of(tmp_path / "build"), tmp_path / "variants"
    (variants / "kept").mkdir(parents=True)
    (variants / "kept/products_bench").write_text("#!/bin/bash\n")
    (variants / "kept/choices.def").write_text("PAGODA_CHOICE(a, 1)\n")
    done = day("pack", "--build", build, "--variants", variants, "--to", tmp_path / "packed")
    assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / "packed/programs.tar.xz") as archive:
        files = {member.name.removeprefix("./") for member in archive if member.isfile()}
        said = json.load(archive.extractfile("./packed.json"))
    assert files == {*PACKED, "packed.json", "variants/kept/products_bench", "variants/kept/choices.def"}
    assert said["source"] == str(ROOT)
    assert float(re.search(r"^files of the tree +(\d+\.\d) MiB$", done.stdout, re.M)[1]) > 5
    assert " MiB of 64, to carry: packed" in done.stdout


@pytest.mark.parametrize("there", [True, False])
def test_the_first_command_runs_or_packs_and_says_why(tmp_path, there):
    """script/gpu with an existing build: it measures if there is a GPU, and otherwise packs the programs."""
    build, tools, out = build_of(tmp_path / "build"), tmp_path / "tools", tmp_path / "out"
    tools.mkdir()
    for name in ("cmake", "ninja"):
        (tools / name).write_text(f"#!/bin/bash\necho {name} $* >> {tmp_path}/asked\n")
        (tools / name).chmod(0o755)
    if not there:
        (build / "bench/device_bench").write_text("#!/bin/bash\necho 'device_bench: no GPU of that kind' >&2\nexit 1\n")
    done = subprocess.run(
        [ROOT / "script/gpu", out, "--budget", "5"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PAGODA_GPU_BUILD": str(build)},
    )
    asked = (tmp_path / "asked").read_text()
    assert "-DPAGODA_CUDA=ON -DPAGODA_CUDA_CODE=90a" in asked and "ninja pagoda pagoda_kv_shared device_test" in asked
    if there:  # the programs do nothing, which is reported
        assert done.returncode == 1 and "tune: exit code 1" in done.stdout
        assert json.loads((out / "tune.jsonl").read_text().splitlines()[0])["device"] == "d"
    else:
        assert done.returncode == 0, done.stderr
        assert "nothing was run: no GPU of that kind" in done.stderr
        assert f"bench/gpu/day run --build {out.name} --out RESULTS" in done.stderr
        assert (out / "programs.tar.xz").exists()


def test_llama_cpp_goes_with_it(tmp_path):
    build, llama = build_of(tmp_path / "build"), tmp_path / "llama"
    llama.mkdir()
    (llama / "llama-bench").write_text("#!/bin/bash\n")
    words = ("pack", "--build", build, "--llama", llama, "--to", tmp_path / "packed")
    done = day(*words)
    assert done.returncode == 1 and "llama.cpp/llama-batched-bench" in done.stdout
    (llama / "llama-batched-bench").write_text("#!/bin/bash\n")
    assert day(*words).returncode == 0
    with tarfile.open(tmp_path / "packed/programs.tar.xz") as archive:
        names = {member.name.removeprefix("./") for member in archive}
    assert {"llama.cpp/llama-bench", "llama.cpp/llama-batched-bench"} <= names


def test_what_is_missing_or_too_large_is_said(tmp_path):
    done = day("pack", "--build", build_of(tmp_path / "a", without="src/device_test"), "--to", tmp_path / "packed")
    assert done.returncode == 1 and "src/device_test                  is not there" in done.stdout
    done = day("pack", "--build", build_of(tmp_path / "b"), "--to", tmp_path / "packed", "--most", 1)
    assert done.returncode == 1 and "is not there" not in done.stdout and "MiB of 1, " in done.stdout


def test_a_run_leaves_its_files_whatever_fails(tmp_path):
    build, out = tmp_path / "packed", tmp_path / "out"
    assert day("pack", "--build", build_of(tmp_path / "build"), "--to", build).returncode == 0
    done = day("run", "--build", build, "--out", out, "--device", "emulated", "--budget", 30)
    assert done.returncode == 1
    assert "tune: exit code 1" in done.stdout and "\nrun: " in done.stdout
    names = {path.name for path in out.iterdir()}
    assert {"tune.jsonl", "tune.log", "run.md", "run.log"} <= names and len(names) <= 8
    assert all(path.is_file() for path in out.iterdir())
    rows = [json.loads(line) for line in (out / "tune.jsonl").read_text().splitlines()]
    assert {"part": "kernels: rows", "failed": "C.d"} in rows
    assert "## The device" in (out / "run.md").read_text()
