"""`bench/gpu/run` on the emulated device: its steps run, and their figures are in the file. A step that fails is
reported, and the next step runs."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Builds the program, and the device benchmarks, which need little of the rest."""
    core = ROOT / "build-core"
    for command in (
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            core,
            "-G",
            "Ninja",
            "-DCMAKE_C_COMPILER=clang-19",
            "-DCMAKE_CXX_COMPILER=clang++-19",
            "-DPAGODA_CORE_ONLY=ON",
            "-DPAGODA_BENCH=ON",
            "-DPAGODA_TESTS=OFF",
        ],
        ["ninja", "-C", core, "device_bench", "attention_bench"],
        ["ninja", "-C", ROOT / "build", "pagoda"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    both = tmp_path_factory.mktemp("build")
    (both / "pagoda").symlink_to(ROOT / "build/pagoda")
    (both / "bench").symlink_to(core / "bench")
    return both


def rehearse(out, build, *steps):
    only = [part for step in steps for part in ("--only", step)]
    return subprocess.run(
        [sys.executable, ROOT / "bench/gpu/run", "--device", "emulated", "--build", build, "--out", out, *only],
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_facts_and_speed(tmp_path, build):
    out = tmp_path / "results.md"
    done = rehearse(out, build, "facts", "memory", "layouts", "speed", "blocks", "preemption")
    assert done.returncode == 0, done.stdout + done.stderr + out.read_text()
    text = out.read_text()
    assert "A rehearsal on the emulated device" in text and "device code" in text
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| tiny |")]
    assert [(row[2].strip(), row[3].split(":")[0].strip()) for row in rows] == [
        (memory, case)
        for memory in ("paged, cublaslt", "paged, own", "virtual, own")
        for case in ("decode, 1", "prefill", "saturated")
    ]
    assert all(float(row[4]) > 0 for row in rows)
    assert "A large product in bfloat16 by the device's library: " in text
    for title, rows, columns in [("Fig. 18a", 2, 8), ("Fig. 18b", 2, 2), ("Fig. 19", 2, 4)]:
        part = text[text.index(f"({title})") :].split("\n## ")[0]
        figures = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
        assert len(figures) == rows, part
        assert all(len(row) == columns and all(float(cell) > 0 for cell in row) for row in figures), part


def test_a_step_that_fails_is_said(tmp_path):
    out = tmp_path / "results.md"
    done = rehearse(out, tmp_path, "memory", "kernels")
    assert done.returncode == 1
    assert "memory: failed" in done.stdout and "kernels: failed" in done.stdout
    assert out.read_text().count("**Failed**") == 2


def test_the_library_over_a_drivers_memory(build):
    """Checks the calls to a GPU's driver, with the fake driver of the library's own tests."""
    for target in ("libpagoda_kv.so", "src/kv_library/libfake_cuda_driver.so"):
        assert subprocess.run(["ninja", "-C", ROOT / "build", target], capture_output=True).returncode == 0
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "bench/gpu/kv_library",
            ROOT / "build/libpagoda_kv.so",
            "--driver",
            ROOT / "build/src/kv_library/libfake_cuda_driver.so",
            "--seeds",
            "5",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "5 seeds" in done.stdout and "every slot kept its bytes" in done.stdout
