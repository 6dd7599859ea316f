"""`bench/gpu/tune` without a GPU, with programs that only print the output of the real ones. Its rows are written as
they arrive, next to their estimates. A part that fails or hangs becomes a row and does not prevent the next part. The
sizes of the fastest variants are chosen."""

import fnmatch
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TUNE = ROOT / "bench/gpu/tune"
PROGRAMS = {
    "device_bench": 'echo \'{"device": "d", "copy_bytes_per_s": 2e12}\'',
    "device_test": """echo '[ RUN      ] A.b'; echo '[       OK ] A.b (3 ms)'
echo '[ RUN      ] S.k'; echo '[  SKIPPED ] S.k (0 ms)'
echo '[ RUN      ] C.d'; echo '[  FAILED  ] C.d (3 ms)'; echo '[  FAILED  ] C.d'; exit 1""",
    "device_runner_test": "echo '[       OK ] E.f (3 ms)'",
    "products_bench": """echo '{"weights": "q4", "n": 4096, "k": 4096, "rows": 1, "tiles_us": 16.0}'
echo '{"weights": "f32", "n": 8, "k": 8, "rows": 1, "tiles_us": 1}'""",
    "attention_bench": """echo '{"case": "attention", "rows": 8, "context": 256, "tiles_us": 9.9, "memory": "paged"}'
exec sleep 60""",
    "step_profile": """echo '{"case": "profile", "kernel": "linear_few_q4_k", "launches": 4, "step_us": 20}'""",
}


def tune(folder, budget, without="", more=(), **programs):
    build = folder / "build"
    build.mkdir()
    for name, script in {**PROGRAMS, **programs}.items():
        if name == without:
            continue
        (build / name).write_text(f"#!/bin/bash\n{script}\n")
        (build / name).chmod(0o755)
    command = [TUNE, "--device", "emulated", "--build", build, "--out", folder / "out", *more]
    start = time.monotonic()
    done = subprocess.run([*command, "--budget", str(budget)], capture_output=True, text=True, timeout=60)
    rows = [json.loads(line) for line in (folder / "out/tune.jsonl").read_text().splitlines()]
    return done.returncode, rows, time.monotonic() - start


def test_rows_come_with_estimates_and_what_hangs_is_timed_out(tmp_path):
    code, rows, seconds = tune(tmp_path, 6)
    assert code == 1 and seconds < 30
    for about in ("rows", "few", "products", "experts", "attention", "float8"):
        part = f"kernels: {about}"
        assert {"part": part, "failed": "C.d"} in rows
        assert {"part": part, "passed": 1, "failures": 1} in rows
        assert {"part": part, "exit_code": 1} in rows
        assert not any(row["part"] == part and "within" in row for row in rows)
    assert {"part": "sampling", "passed": 1, "failures": 0} in rows
    product = next(row for row in rows if row["part"] == "products" and row["weights"] == "q4")
    assert 5 < product["estimate_us"] < 16 and abs(product["off"] - (16.0 / product["estimate_us"] - 1)) < 0.02
    attention = next(row for row in rows if row["part"] == "attention")
    assert attention["tiles_us"] == 9.9 and abs(attention["off"] - (9.9 / attention["estimate_us"] - 1)) < 0.02
    assert {"part": "attention", "timed_out": True} in rows
    assert {"part": "models", "timed_out": True} in rows
    assert {"part": "torch", "timed_out": True} in rows
    assert rows[-1]["part"] == "llama.cpp" and "bench/gpu/llama_cpp builds it" in rows[-1]["error"]


def test_a_kernel_that_ends_its_program_is_named(tmp_path):
    """The programs after it still run."""
    code, rows, _ = tune(
        tmp_path,
        15,
        without="attention_bench",
        device_test="""echo '[ RUN      ] A.b'; echo '[       OK ] A.b (3 ms)'; echo '[ RUN      ] Float8.hangs'
case "$*" in *Float8*) exit 134;; esac; echo '[       OK ] Float8.hangs (1 ms)'""",
    )
    assert code == 1
    assert [row for row in rows if "within" in row] == [{"part": "kernels: float8", "within": "Float8.hangs"}]
    assert {"part": "kernels: attention", "passed": 2, "failures": 0} in rows
    assert {"part": "sampling", "passed": 1, "failures": 0} in rows


def test_each_test_runs_on_a_gpu_or_is_left_out():
    """A suite that does not open a test device (src/device/test_device.h) always runs on emulated devices."""
    loader = importlib.machinery.SourceFileLoader("gpu_run", str(TUNE.with_name("run")))
    gpu_run = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_run", loader))
    loader.exec_module(gpu_run)
    left_out = [pattern for pattern in gpu_run.ONLY_EMULATED if pattern.strip("*").split(".")[0][0].isupper()]
    wrong = []
    for folder in ("device", "device_runner", "kernels/device"):
        for file in sorted((ROOT / "src" / folder).rglob("*_test.cc")):
            text = file.read_text()
            of_gpu = re.search(r"open_test_device|KernelBench", text) is not None
            for suite in set(re.findall(r"^(?:TEST|TEST_F|TEST_P)\((\w+)", text, re.M)):
                if any(fnmatch.fnmatch(f"{suite}.x", pattern) for pattern in left_out) == of_gpu:
                    wrong.append(f"{suite} of {file.name}")
    assert not wrong


def test_llama_cpps_rows_stand_beside(tmp_path):
    """The programs log from a separate thread, and sometimes lose the last lines, as the real ones do."""
    programs = {
        "llama-bench": """[[ $* == *"-p 24"* ]] && echo '{"avg_ts": 7.5}' || echo '{"avg_ts": 2.5}'""",
        "llama-batched-bench": """mkdir lost 2> /dev/null && exit
echo '{"pl": 2, "speed_tg": 4.5}'; echo '{"pl": 1, "speed_tg": 1}'""",
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\ncd {tmp_path}\n{script}\n")
        (tmp_path / name).chmod(0o755)
    words = [TUNE.with_name("llama_baseline"), "--device", "cpu", "--model", "file", "--programs", tmp_path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["case"]: row["tokens_per_s"] for row in rows} == {
        "decode, 1": 2.5,
        "prefill of 24": 7.5,
        "decode, 2": 4.5,
    }
    (tmp_path / "llama-bench").write_text("#!/bin/bash\necho no GPU >&2\nexit 1\n")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"part": "llama.cpp", "model": "file", "error": "no GPU"}


def test_a_program_that_is_not_there_is_a_row(tmp_path):
    code, rows, _ = tune(tmp_path, 15, without="attention_bench")
    assert code == 1
    assert "attention_bench" in next(row for row in rows if row["part"] == "attention")["error"]
    assert {"part": "runner", "passed": 1, "failures": 0} in rows
    assert next(row for row in rows if row["part"] == "profile")["kernel"] == "linear_few_q4_k"


@pytest.fixture
def variants():
    loader = importlib.machinery.SourceFileLoader("variants", str(ROOT / "bench/gpu/variants"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("variants", loader))
    loader.exec_module(module)
    return module


def test_variants_change_sizes_that_there_are(variants):
    text = variants.CHOICES.read_text()
    kept = variants.numbers(text)
    for name, changes in variants.VARIANTS.items():
        assert variants.numbers(variants.with_changes(text, changes)) == {**kept, **changes}, name
        assert all(kept[size] != value for size, value in changes.items()), name
    with pytest.raises(ValueError, match="there is no stages among the choices"):
        variants.with_changes(text, {"stages": 3})


def test_the_sizes_of_the_quickest_variants_are_chosen(tmp_path, variants):
    text, folder = variants.CHOICES.read_text(), tmp_path / "variants"
    products = [("q4_k", 4096), ("bf16", 6144)]
    # A second product makes few-stages-9 slower overall; few-warps-2 ends before its second product.
    times = {"kept": (10, 20), "few-stages-5": (8, 20), "few-stages-9": (6, 40), "few-warps-2": (1,)}
    for name, microseconds in {**times, "some-stages-3": (11, 21)}.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "choices.def").write_text(variants.with_changes(text, variants.VARIANTS[name]))
        lines = [
            json.dumps({"weights": kind, "n": n, "k": 4096, "rows": 1, "tiles_us": time})
            for (kind, n), time in zip(products, microseconds)
        ]
        program = folder / name / variants.PROGRAM
        program.write_text("#!/bin/bash\n" + "\n".join(f"echo '{line}'" for line in lines) + "\n")
        program.chmod(0o755)
    _, rows, _ = tune(tmp_path, 20, without="attention_bench", more=("--variants", folder))
    best = {row["rows"]: row for row in rows if "best" in row}
    assert best["few"]["best"] == "few-stages-5" and best["few"]["share"]["few-stages-9"] == 1.3
    assert best["some"]["best"] == "kept"
    assert {"part": "variants", "variant": "few-warps-2", "error": "not all of its products were timed"} in rows
    assert {"part": "variants", "changes": {"few_stages": 5}} in rows
    chosen = (tmp_path / "out/choices.def").read_text()
    assert chosen == variants.with_changes(text, {"few_stages": 5})


@pytest.mark.parametrize(
    "tests, best",
    [
        ("echo '[       OK ] BulkCheck.A (3 ms)'", "many-bulk-late"),
        ("echo '[  FAILED  ] BulkCheck.A (3 ms)'; exit 1", "kept"),
        ("exit 1", "kept"),
        ("echo '[       OK ] BulkCheck.A (3 ms)'; exit 1", "kept"),
    ],
)
def test_warpgroups_are_not_chosen_where_their_bits_may_differ(tmp_path, variants, tests, best):
    text, folder = variants.CHOICES.read_text(), tmp_path / "variants"
    for name, microseconds in (("kept", 10), ("many-bulk-late", 5)):
        (folder / name).mkdir(parents=True)
        (folder / name / "choices.def").write_text(variants.with_changes(text, variants.VARIANTS[name]))
        program = folder / name / variants.PROGRAM
        line = json.dumps({"weights": "bf16", "n": 4096, "k": 4096, "rows": 256, "tiles_us": microseconds})
        program.write_text(f"#!/bin/bash\necho '{line}'\n")
        program.chmod(0o755)
    more = ("--variants", folder)
    _, rows, _ = tune(tmp_path, 20, without="attention_bench", more=more, device_test=tests)
    assert {row["rows"]: row["best"] for row in rows if "best" in row}["many"] == best
    chosen = (tmp_path / "out/choices.def").read_text()
    assert chosen == variants.with_changes(text, variants.VARIANTS[best])


def test_a_dry_run_names_what_is_not_there(tmp_path):
    done = subprocess.run(
        [TUNE, "--device", "cuda", "--dry-run", "--build", tmp_path, "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and not (tmp_path / "out").exists()
    assert f"products 90 s: {tmp_path}/products_bench cuda (not there)" in done.stdout
    assert "variants: there are none" in done.stdout
    assert "torch_baseline --device cuda" in done.stdout
