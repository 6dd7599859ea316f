"""`bench calibrate --served` and `plan`: from an unknown machine to a result with its interval, and clear errors."""

import json
import os
import pathlib
import subprocess
import time

from conftest import binary, small_model

# Four requests at a time: all at once, the last would wait for 25 runs of thirty steps.
LOAD_TO_PLAN = "uniform:input=20,output=30"
POOL = ["--kv-cache-memory-bytes", "4MiB"]
LOAD = [*POOL, "--served", "--seconds", "6", "--max-batch", "4", "--max-context", "100"]


def run(*args, env=None):
    return subprocess.run([binary(), *(str(arg) for arg in args)], capture_output=True, text=True, timeout=300, env=env)


def children_serving():
    """Returns child processes that still serve for a calibration."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"calibrate" in words and os.fsencode(str(small_model())) in words:
                found.append(entry.name)
        except OSError:
            pass
    return found


def test_a_served_calibration_keeps_the_scatter_and_plans(tmp_path):
    cost = tmp_path / "cost.json"
    begin = time.monotonic()
    done = run("bench", "calibrate", small_model(), *LOAD, "-o", cost)
    assert done.returncode == 0, done.stderr
    assert "fitted to" in done.stdout
    assert time.monotonic() - begin < 120
    model = json.loads(cost.read_text())
    # The scatter of steps with prompts needs a hundred steps, which a starved machine may not reach.
    assert len(model["decode_scatter"]) == 100 and len(model.get("prompt_scatter", [])) in (0, 100)
    assert model["decode_scatter"][0] < 1 < model["decode_scatter"][-1]
    assert len(model["linear_points"]) > 2 and model["linear_points"][0][1] > 0
    # A cost of zero is not written: a starved machine may measure no difference between one page and many.
    assert model["map_page_bytes"] == 4096 and model.get("map_call_s", 0) + model.get("map_page_s", 0) > 0
    assert not children_serving()

    step_ms = 1e3 * model["linear_points"][0][1]
    # The scatter of a starved machine exceeds any limit, so planning here does without it.
    cost.write_text(json.dumps({name: value for name, value in model.items() if "scatter" not in name}))
    ask = [
        "plan",
        *POOL,
        "--cost-model",
        cost,
        "--workload",
        LOAD_TO_PLAN,
        "--max-num-seqs",
        "4",
        "--ttft-p99",
        300 * step_ms,
        "--tpot-p99",
        100 * step_ms,
        "--seeds",
        "4",
        "--max-queue-time",
        "0",
        "--output-json",
        "-",
    ]
    done = run(*ask)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    low, high = plan["rate_interval"]
    assert 0 < low <= plan["rate"] <= high
    assert plan["seeds"] == 4 and low < high and plan["ttft_p99_s"] <= 0.3 * step_ms
    # One machine sustains the stated rate; twice its highest rate needs at least two.
    for rate, least in ((0.5 * low, 1), (2 * high, 2)):
        done = run(*ask, "--rate", rate)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["replicas"] >= least
        if least == 1:
            assert json.loads(done.stdout)["replicas"] == 1


def test_a_poor_fit_and_a_roofline_are_told(tmp_path):
    # Steps of this model are long: runs of a fast one are too short for the limits until they have 64,000 requests.
    done = run("simulate", "--cost-model", "a100-40gb/opt-13b/tp1", "--print-cost-model")
    assert done.returncode == 0, done.stderr
    model = json.loads(done.stdout)
    ask = ["plan", "--workload", "uniform:input=20,output=10", "--max-num-seqs", "4", "--seeds", "4"]
    assert "an upper bound" in run(*ask, "--cost-model", "a100-40gb/opt-13b/tp1").stderr
    poor = tmp_path / "poor.json"
    poor.write_text(json.dumps({**model, "linear_points": [[1, 0.01], [512, 0.1]], "fit_error": 0.31}))
    assert "off by 31 %" in run(*ask, "--cost-model", poor).stderr


def test_a_small_calibration_is_no_answer(tmp_path):
    model = json.loads(run("simulate", "--cost-model", "a100-40gb/opt-125m/tp1", "--print-cost-model").stdout)
    small = tmp_path / "small.json"
    small.write_text(
        json.dumps({**model, "linear_points": [[1, 0.01], [512, 0.1]], "fitted_steps": 120, "fitted_sequences": 3})
    )
    done = run("plan", "--workload", "alpaca", "--cost-model", small)
    assert done.returncode == 2 and "the calibration is too small: it has 120 steps" in done.stderr, done.stderr
    assert not done.stdout


def test_what_cannot_be_calibrated_is_said(tmp_path):
    done = run("bench", "calibrate", tmp_path / "none.gguf", *LOAD)
    assert done.returncode == 2 and "none.gguf" in done.stderr, done.stderr
    done = run("bench", "calibrate", small_model(), *LOAD, "--log", tmp_path / "x.log")
    assert done.returncode == 2 and "--served or --log, not both" in done.stderr
    # The server itself refuses to start; its message is printed.
    done = run("bench", "calibrate", small_model(), *LOAD, "--max-model-len", "100000")
    assert done.returncode != 0 and "the server ended with an error" in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) <= 2, done.stderr
    assert not children_serving()
