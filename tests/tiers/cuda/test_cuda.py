"""Tests of the device code that need no GPU. The code compiles; the registers of each kernel match the table
src/device/cuda/resources.txt; the instructions pass the checks of tools/cuda_sass; bench/gpu/estimate reproduces the
measurements and meets its targets; a program with device code starts here and reports the code that it contains; and
another file of sizes gives another program. Nothing runs on a GPU.

To update the table after a kernel has changed:
tools/cuda_resources build-tier-cuda/cuda/ptxas.txt > src/device/cuda/resources.txt"""

import json
import os
import pathlib
import re
import runpy
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build-tier-cuda"
TABLE = ROOT / "src/device/cuda/resources.txt"
TOOL = ROOT / "tools/cuda_resources"
SASS = ROOT / "tools/cuda_sass"
CHOICES = ROOT / "src/device/kernels/choices.def"
VARIANTS = ROOT / "bench/gpu/variants"


def run(*command, **how):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **how)


@pytest.fixture(scope="module")
def build():
    """Builds the device benchmarks, which need little of the rest, with device code."""
    configured = run(
        "cmake",
        "-S",
        ROOT,
        "-B",
        BUILD,
        "-G",
        "Ninja",
        "-DCMAKE_C_COMPILER=clang-19",
        "-DCMAKE_CXX_COMPILER=clang++-19",
        "-DPAGODA_CUDA=ON",
        "-DPAGODA_CORE_ONLY=ON",
        "-DPAGODA_BENCH=ON",
        "-DPAGODA_TESTS=OFF",
    )
    assert configured.returncode == 0, configured.stderr
    built = run("ninja", "-C", BUILD, "device_bench", "products_bench")
    assert built.returncode == 0, built.stdout + built.stderr
    return BUILD


def test_kernels_use_no_more_than_the_table_says(build):
    checked = run(TOOL, build / "cuda/ptxas.txt", "--check", TABLE)
    print(checked.stdout)
    assert checked.returncode == 0, checked.stderr


def test_the_table_can_fail(build, tmp_path):
    lines = TABLE.read_text().splitlines()
    smaller = tmp_path / "smaller.txt"
    smaller.write_text("\n".join(line.replace(" rms_norm", " x") if i else line for i, line in enumerate(lines[:-1])))
    assert "is not in the table" in run(TOOL, build / "cuda/ptxas.txt", "--check", smaller).stderr
    name, arch, registers, stack, spilled = lines[1].split()
    smaller.write_text("\n".join([lines[0], f"{name} {arch} {int(registers) - 1} {stack} {spilled}", *lines[2:]]))
    assert (
        f"{name} for {arch} uses {registers} registers"
        in run(TOOL, build / "cuda/ptxas.txt", "--check", smaller).stderr
    )


@pytest.mark.parametrize(
    "source, said",
    [
        ("sums[0] *= 2; x[k] = sums[1];", "linear_bulk_bad: .*wgmma.mma_async instructions are serialized"),
        (
            "__shared__ float room[128]; room[127 - threadIdx.x] = sums[2]; __syncthreads(); x[0] = room[threadIdx.x];",
            "linear_bulk_bad for sm_90a has 512 bytes of shared memory of its own",
        ),
    ],
)
def test_remarks_of_the_assembler_are_faults(tmp_path, source, said):
    """The compiler reports neither fault as an error: sums that a thread accesses while warpgroups add to them, and
    shared memory that a launch does not account for, so that cudaFuncSetAttribute() refuses the size available on the
    device."""
    words = ", ".join(f"%{i}" for i in range(16))
    sums = ", ".join(f'"+f"(sums[{i}])' for i in range(16))
    (tmp_path / "bad.cu").write_text(f"""
namespace kernels {{
__global__ void __launch_bounds__(128) linear_bulk_bad(float* x, unsigned long long a, unsigned long long b) {{
  float sums[16] = {{}};
  for (int k = 0; k < 4; ++k) {{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{{words}}}, %16, %17, 1, 1, 1, 0, 0;"
                 : {sums} : "l"(a), "l"(b) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    {source}
  }}
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 16; ++i) x[threadIdx.x * 16 + i] = sums[i];
}}
}}
""")
    code = ("-std=c++20", "-gencode", "arch=compute_90a,code=sm_90a", "-Werror", "all-warnings", "-Xptxas", "-v")
    made = run(
        toolkit() / "bin/nvcc", "-ccbin", "clang++-19", *code, "-c", tmp_path / "bad.cu", "-o", tmp_path / "bad.o"
    )
    assert made.returncode == 0, made.stderr
    (tmp_path / "ptxas.txt").write_text(made.stdout + made.stderr)
    checked = run(TOOL, tmp_path / "ptxas.txt", "--check", TABLE)
    assert checked.returncode == 1 and re.search(said, checked.stderr), checked.stderr


def toolkit():
    return pathlib.Path(run(ROOT / "script/cuda").stdout.strip())


def configured_with_libraries(folder, cuda):
    return run(
        *("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_C_COMPILER=clang-19"),
        *("-DCMAKE_CXX_COMPILER=clang++-19", "-DPAGODA_CORE_ONLY=ON", "-DPAGODA_BENCH=ON", "-DPAGODA_TESTS=OFF"),
        *("-DPAGODA_CUDA_CODE=90a", "-DPAGODA_CUDA_LIBRARIES=ON", f"-DPAGODA_CUDA={cuda}"),
    )


def test_kernels_of_other_libraries_compile(tmp_path):
    """Compiles one kernel of each library that builds quickly, without spills, and with products that are not
    serialized."""
    configured = configured_with_libraries(tmp_path, "ON")
    assert configured.returncode == 0, configured.stderr
    for name in ("flashinfer_decode", "cutlass_bf16_few"):
        built = run("ninja", "-C", tmp_path, f"cuda/{name}.o")
        assert built.returncode == 0, built.stdout[-3000:]
        said = (tmp_path / f"cuda/{name}.txt").read_text()
        assert "Used " in said and not re.search(r"[1-9]\d* bytes spill|C7510", said)


def test_other_libraries_need_cuda(tmp_path):
    configured = configured_with_libraries(tmp_path, "OFF")
    assert configured.returncode != 0 and "PAGODA_CUDA_LIBRARIES needs PAGODA_CUDA" in configured.stderr


def test_instructions_pass_the_gates(build):
    checked = run(SASS, build / "cuda/kernels.o", "--bin", toolkit() / "bin")
    print(checked.stdout)
    assert checked.returncode == 0, checked.stderr
    kernels = {tuple(line.split()[:2]) for line in TABLE.read_text().splitlines()[1:]}
    assert {tuple(line.split()[:2]) for line in checked.stdout.splitlines()[1:]} == kernels


def test_warpgroups_that_take_registers_begin_with_equal_shares(build):
    """The registers that a warpgroup may take depend on the shares that the launch gives each block:
    shares_registers() in launch_shapes.h assumes equal shares of all hardware registers. A kernel that begins with
    fewer would wait for registers forever."""
    environment = {**os.environ, "PATH": f"{toolkit()}/bin:{os.environ['PATH']}"}  # cuobjdump calls nvdisasm
    said = run(toolkit() / "bin/cuobjdump", "-sass", build / "cuda/kernels.o", env=environment)
    kernel_name = runpy.run_path(str(TOOL))["kernel_name"]
    takes = {
        kernel_name(part.split("\n", 1)[0]) for part in said.stdout.split("Function : ")[1:] if "USETMAXREG" in part
    }
    rows = (line.split() for line in TABLE.read_text().splitlines())
    registers = {row[0]: int(row[2]) for row in rows if row[1] == "sm_90a"}
    assert len(takes) > 10 and {registers[name] for name in takes} == {65536 // 384 // 8 * 8}


def test_the_estimator_counts_the_instructions_that_there_are(build):
    estimate = (ROOT / "bench/gpu/estimate").read_text()
    some, brings, wide = map(int, re.search(r"SOME, BRINGS, WIDE = \d+, (\d+), (\d+), (\d+)", estimate).groups())
    loops = {}
    for line in run(SASS, build / "cuda/kernels.o", "--bin", toolkit() / "bin", "--loops").stdout.splitlines():
        kernel, arch, *counts = line.split()
        loops[kernel, arch] = sum(map(int, counts))
    assert loops["linear_some_bf16", "sm_90a"] == some + brings
    assert loops["linear_wide_bf16", "sm_90a"] == wide


@pytest.mark.parametrize(
    "name, source, said",
    [
        (
            "few",
            "int room[200]; for (int i = 0; i < 200; ++i) room[x[i] & 127] = i; x[0] = room[x[1] & 127];",
            "STL",
        ),
        (
            "few",
            "__shared__ unsigned long long sum; atomicAdd(&sum, (unsigned long long)x[0]); x[1] = sum;",
            "ATOMS.CAST",
        ),
        ("few", "x[0] = 1;", "has no HMMA"),
        ("few", "x[0] = 1;", "does not wait for earlier kernels"),
        ("few", 'x[0] = 1; asm volatile("griddepcontrol.wait;");', "touches memory before it waits"),
        ("bulk", "x[0] = 1;", "has no HGMMA"),
        ("bulk", "x[0] = 1;", "has no UBLKCP"),
        ("float8", "x[0] = 1;", "has no QGMMA"),
    ],
)
def test_the_gates_can_fail(build, tmp_path, name, source, said):
    (tmp_path / "bad.cu").write_text(
        f"namespace kernels {{ __global__ void linear_{name}_bad(int* x) {{ {source} }} }}\n"
    )
    made = run(
        toolkit() / "bin/nvcc", "-ccbin", "clang++-19", "-arch=sm_90a", "-c", tmp_path / "bad.cu", "-o", tmp_path / "o"
    )
    assert made.returncode == 0, made.stderr
    checked = run(SASS, tmp_path / "o", "--bin", toolkit() / "bin")
    assert checked.returncode == 1
    assert f"linear_{name}_bad for sm_90a has" in checked.stderr and said in checked.stderr


def test_the_estimator_gives_what_was_measured():
    page = ROOT / "bench/results/2026-11-26-gpu-h200.md"
    checked = run(ROOT / "bench/gpu/estimate", "--check", page)
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count(" measured ") >= 80
    assert run(ROOT / "bench/gpu/estimate", "--check", page, "--tolerance", "0.1").returncode == 1
    assert run(ROOT / "bench/gpu/estimate", "--check", ROOT / "README.md").returncode == 1  # the file has no such rows
    assert "8B Q4_K_M" in run(ROOT / "bench/gpu/estimate").stdout


def test_the_page_has_the_targets_that_are_computed(tmp_path):
    targets, page = ROOT / "bench/gpu/targets", ROOT / "docs/device-bench.md"
    done = run(targets, "--docs", page)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("not measured") >= 4 and done.stdout.count("\n") >= 16
    other = tmp_path / "other.md"
    other.write_text(page.read_text().replace("| 80 %: ", "| 81 %: "))
    assert run(targets, "--docs", other).returncode == 1


def alone_choices(folder):
    path = folder / "choices.def"
    path.write_text(re.sub(r"some_cluster, \d+", "some_cluster, 1", CHOICES.read_text()))
    return path


def test_bars(tmp_path):
    """According to the estimate, five targets are missed: one of 256 rows by warpgroups, and four of 16 rows, as on a
    GPU. One more is a regression. Without clusters (blocks share no copies), three more are missed."""
    page = ROOT / "bench/results/2026-11-26-gpu-h200.md"
    lines = run(ROOT / "bench/gpu/estimate", "--bars", page).stdout.splitlines()
    bars = [line for line in lines if re.search(r" (holds|MISSED)", line)]
    missed = [line[:44].strip() for line in bars if "MISSED" in line]
    assert len(bars) == 36
    of_16 = ["6144 x 4096", "28672 x 4096", "4096 x 14336", "128256 x 4096"]
    assert sorted(missed) == sorted(
        [f"bf16 {matrix}, 16 rows: the library" for matrix in of_16] + ["warpgroups, 4096 x 14336, 256 rows: 85 %"]
    )
    assert lines[-1] == "5 missed"
    alone = run(ROOT / "bench/gpu/estimate", "--bars", page, "--choices", alone_choices(tmp_path)).stdout
    assert alone.splitlines()[-1] == "8 missed"


def test_a_program_starts_without_a_gpu_and_says_what_it_holds(build):
    code, products = run(build / "bench/device_bench", "code").stdout.splitlines()
    assert "kernels for sm_80 and sm_90a, PTX for later ones, CUDA 13.0" in code
    assert "there is no libcublasLt.so.13 here" in products or ", version " in products
    done = run(build / "bench/device_bench", "cuda", timeout=60)
    if done.returncode != 0:  # no GPU here
        assert done.stderr.startswith("device_bench: no CUDA device can be used here: ")
        assert done.stderr.count("\n") == 1


def sizes(path):
    return {name: int(value) for name, value in re.findall(r"^PAGODA_CHOICE\((\w+), (\d+)\)", path.read_text(), re.M)}


def test_a_build_reads_another_file_of_sizes(build, tmp_path):
    """bench/gpu/variants builds variants from a file such as bench/gpu/tune writes, and they pass the checks."""
    kept = sizes(CHOICES)
    assert json.loads(run(build / "bench/products_bench", "choices").stdout) == kept
    tuned = tmp_path / "tuned.def"
    tuned.write_text(CHOICES.read_text().replace("PAGODA_CHOICE(many_blocks, 128)", "PAGODA_CHOICE(many_blocks, 96)"))
    out = tmp_path / "variants"
    done = run(VARIANTS, "--out", out, "--only", "many-stages-2", "--choices", tuned, timeout=1200)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left out" not in done.stdout
    for name, more in (("kept", {}), ("many-stages-2", {"many_stages": 2})):
        wanted = {**kept, "many_blocks": 96, **more}
        assert sizes(out / name / "choices.def") == wanted
        assert json.loads(run(out / name / "products_bench", "choices").stdout) == wanted


def test_all_variants_pass_the_gates():
    done = run(VARIANTS, "--gates", timeout=1200)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    count, of = re.fullmatch(r"(\d+) of (\d+) pass", done.stdout.splitlines()[-1]).groups()
    assert count == of and int(of) > 15


@pytest.mark.parametrize(
    "line, other, said",
    [
        ("some_stages, 4", "some_stages, 9", "kernel_launches.cc"),  # more than shared memory can hold
        ("some_stages, 4", "some_stages, 2", "tile_copies.cuh"),  # fewer than blocks that share copies need
    ],
)
def test_sizes_that_cannot_be_do_not_pass(tmp_path, line, other, said):
    assert line in CHOICES.read_text()
    (tmp_path / "other.def").write_text(CHOICES.read_text().replace(line, other))
    done = run(VARIANTS, "--gates", "--only", "nothing", "--choices", tmp_path / "other.def", timeout=600)
    first, last = done.stdout.splitlines()
    assert done.returncode == 1 and last == "0 of 1 pass"
    assert first.startswith("kept: ") and "error" in first and said in first


def test_the_plan_of_a_gpu_run_fits_into_six_minutes(build):
    done = run(ROOT / "bench/gpu/run", "--device", "cuda", "--dry-run", "--build", build)
    assert re.search(r"^3\d\d s of 360, ", done.stdout, re.M), done.stdout
    assert done.returncode == 1 and "src/device_test          is not there" in done.stdout
