"""`bench/gpu/run` on the emulated device: its steps run and their figures are in the file; a step that fails is said, and the
next one goes on."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def rehearse(out, *steps, build=ROOT / "build"):
    only = [part for step in steps for part in ("--only", step)]
    return subprocess.run([sys.executable, ROOT / "bench/gpu/run", "--device", "emulated", "--build", build, "--out", out, *only],
                          capture_output=True, text=True, timeout=600)


def test_facts_and_speed(tmp_path):
    out = tmp_path / "results.md"
    done = rehearse(out, "facts", "speed")
    assert done.returncode == 0, done.stdout + done.stderr + out.read_text()
    text = out.read_text()
    assert "A rehearsal on the emulated device" in text and "device code" in text
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| tiny |")]
    assert [(row[2].strip(), row[3].split(":")[0].strip()) for row in rows] == [
        (memory, case) for memory in ("paged", "virtual") for case in ("decode, 1", "prefill", "saturated")]
    assert all(float(row[4]) > 0 for row in rows)


def test_a_step_that_fails_is_said(tmp_path):
    out = tmp_path / "results.md"
    done = rehearse(out, "memory", "kernels", build=tmp_path)
    assert done.returncode == 1
    assert "memory: failed" in done.stdout and "kernels: failed" in done.stdout
    assert out.read_text().count("**Failed**") == 2
