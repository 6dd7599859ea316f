"""`bench/gpu/tune` without a GPU: programs that only print what the real ones do. Its rows are there as they come, with
estimates beside them; what fails or hangs is a row, and does not keep the next part from running."""

import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAMS = {
    "device_bench": 'echo \'{"device": "d", "copy_bytes_per_s": 2e12}\'',
    "device_test": "echo '[       OK ] A.b (3 ms)'; echo '[  FAILED  ] C.d (3 ms)'; echo '[  FAILED  ] C.d'; exit 1",
    "device_runner_test": "echo '[       OK ] E.f (3 ms)'",
    "products_bench": """echo '{"weights": "q4", "n": 4096, "k": 4096, "rows": 1, "tiles_us": 20.2}'
echo '{"weights": "f32", "n": 8, "k": 8, "rows": 1, "tiles_us": 1}'""",
    "attention_bench": """echo '{"case": "attention", "rows": 8, "context": 256, "tiles_us": 9.9, "memory": "paged"}'
exec sleep 60""",
}


def tune(folder, budget, without=""):
    build = folder / "build"
    build.mkdir()
    for name, script in PROGRAMS.items():
        if name == without:
            continue
        (build / name).write_text(f"#!/bin/bash\n{script}\n")
        (build / name).chmod(0o755)
    command = [ROOT / "bench/gpu/tune", "--device", "emulated", "--build", build, "--out", folder / "out"]
    start = time.monotonic()
    done = subprocess.run([*command, "--budget", str(budget)], capture_output=True, text=True, timeout=60)
    rows = [json.loads(line) for line in (folder / "out/tune.jsonl").read_text().splitlines()]
    return done.returncode, rows, time.monotonic() - start


def test_rows_come_with_estimates_and_what_hangs_is_timed_out(tmp_path):
    code, rows, seconds = tune(tmp_path, 6)
    assert code == 1 and seconds < 30
    assert {"part": "kernels", "failed": "C.d"} in rows
    assert {"part": "kernels", "passed": 1, "failures": 1} in rows
    assert {"part": "kernels", "exit_code": 1} in rows
    assert {"part": "sampling", "passed": 1, "failures": 0} in rows
    product = next(row for row in rows if row["part"] == "products" and row["weights"] == "q4")
    assert product["estimate_us"] == 10.1 and abs(product["off"] - 1.0) < 0.02
    attention = next(row for row in rows if row["part"] == "attention")
    assert attention["tiles_us"] == 9.9 and abs(attention["off"]) < 0.02
    assert {"part": "attention", "timed_out": True} in rows
    assert rows[-1] == {"part": "models", "timed_out": True}


def test_a_program_that_is_not_there_is_a_row(tmp_path):
    code, rows, _ = tune(tmp_path, 15, without="attention_bench")
    assert code == 1
    assert "attention_bench" in next(row for row in rows if row["part"] == "attention")["error"]
    assert {"part": "runner", "passed": 1, "failures": 0} in rows
