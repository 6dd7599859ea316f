#!/usr/bin/env python3
"""Builds and runs the tests; called by script/test, which prepares the machine.

Every test program reports in JUnit XML (written by both GoogleTest and pytest), so the counts are the frameworks' own.
A program that dies before it can report counts as one failure, in addition to the tests that passed by its output.
"""

import argparse
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET

from tiers import ROOT, all_tiers

sys.path.insert(0, str(ROOT / "tests"))
from private_cache import private_cache  # noqa: E402

CORE = ("check", "lint", "cpp", "e2e")
PARTS = (*CORE, "fuzz")  # fuzzing needs a separate build
BUILD_DIRS = {"": "build", "address,undefined": "build-asan", "thread": "build-tsan"}
FUZZ_SECONDS = 5  # per target, in an ordinary run
TIMEOUT_S = 900  # per test program; sanitizers make a test 5 to 15 times slower
E2E_TIMEOUT_S = 1800  # for all end-to-end tests: 12 minutes on two idle cores, longer on a busy machine
CI_MINUTES = 60  # for core and tiers together, out of 90 available; a tier that might exceed it waits for the next run
PROGRAMS = (
    "pagoda",
    "pagoda_shared",
    "pagoda_example",
    "pagoda_kv_shared",
    "fake_cuda_driver",
    "fake_nccl",
)  # programs and libraries that end-to-end tests use
TIER_PROGRAMS = ("pagoda", "pagoda_kv_shared")
BESIDE = ("nice", "-n", "5")  # priority of C++ builds and tests while end-to-end tests, which measure times, run
IDLE = ("nice", "-n", "12")  # priority of C++ tests that use only the time left by both
# End-to-end tests that mostly wait, for ranks, devices, hubs and collectors that hang, or that other load does not
# disturb. They run concurrently with the other tests, and take as long in total. All tests that call mpirun are in this
# list, since one of them checks what its ranks leave in /dev/shm.
WAITING = (
    "test_device_ranks.py",
    "test_device.py",
    "test_device_tiers.py",
    "test_kv_disk.py",
    "test_quantize.py",
    "test_recipes.py",
    "test_tensor_parallel.py",
    "test_ranks_over_mpi.py",
    "test_docs_run.py",
    "test_pull.py",
    "test_model_file_changes.py",
    "test_traces.py",
)
# These start first, so that a short test finishes last.
LONGEST_FIRST = ("device_runner_test", "device_test", "cli_test", "model_runner_test", "kernels_test", "engine_test")
TIDY_MINUTES = 7  # for tools/lint --tidy, including its start
FUZZ_MINUTES = 12  # for building and running the fuzz targets on two cores with an empty compiler cache


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []
        self.lock = threading.Lock()

    def add(self, other_passed, failed=(), skipped=()):
        with self.lock:  # C++ and end-to-end tests run concurrently
            self.passed += other_passed
            self.failed += failed
            self.skipped += skipped


def say(text):
    print(f"==> {text}", flush=True)


def junit(path, prefix=""):
    """Returns (number passed, names failed, [(name, reason)] skipped) of a JUnit file."""
    passed, failed, skipped = 0, [], []
    for case in ET.parse(path).getroot().iter("testcase"):
        name = prefix + case.get("classname", "") + "." + case.get("name", "")
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif skip is not None or case.get("result") == "skipped" or case.get("status") == "notrun":
            reason = skip.get("message", "") if skip is not None else "disabled"
            # GoogleTest writes "file:line" on a line before the reason.
            skipped.append((name, reason.strip().splitlines()[-1] if reason.strip() else "no reason given"))
        else:
            passed += 1
    return passed, failed, skipped


def run_program(command, report, env, prefix="", timeout_s=TIMEOUT_S, how=()):
    """Runs one test program, prints its output if it fails, and returns the result of junit() for its report."""
    started = time.monotonic()
    report.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            [*how, *command],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            text=True,
            errors="replace",
            cwd=ROOT,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as expired:
        output, code = (expired.stdout or b"").decode(errors="replace"), f"no end after {timeout_s} s"
    name = pathlib.Path(command[0]).name if not prefix else prefix.rstrip(":")
    try:
        passed, failed, skipped = junit(report, prefix)
    except (FileNotFoundError, ET.ParseError):
        passed, failed, skipped = len(re.findall(r"^\[       OK \]", output, re.M)), [], []
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
        failed.append(f"{name}: died ({code})" + (f" in {begun[-1]}" if begun else ""))
    else:
        if code not in (0, 5) and not failed:  # pytest exits with 5 if it collected no tests
            failed.append(f"{name}: exit code {code} though every test passed")
    if failed:
        print(output[-20000:], flush=True)
    print(
        f"    {name}: {passed} passed, {len(failed)} failed, {len(skipped)} skipped"
        f" ({time.monotonic() - started:.1f} s)",
        flush=True,
    )
    return passed, failed, skipped


def build(directory, targets, *options, how=()):
    ninja, packages = directory / "build.ninja", pathlib.Path(os.environ.get("PAGODA_CACHE", "")) / "setup-test.stamp"
    # Configure again if packages were installed since: a library that was missing may now be found (MPI comes with the
    # packages of the tests).
    newer = packages.exists() and ninja.exists() and packages.stat().st_mtime > ninja.stat().st_mtime
    if not ninja.exists() or newer or "PAGODA_NATIVE:BOOL=ON" in (directory / "CMakeCache.txt").read_text():
        say(f"configuring {directory.name}")
        done = subprocess.run(
            [
                "cmake",
                "-S",
                ROOT,
                "-B",
                directory,
                "-G",
                "Ninja",
                "-DCMAKE_C_COMPILER=clang-19",
                "-DCMAKE_CXX_COMPILER=clang++-19",
                "-DPAGODA_PRECOMPILE=ON",
                "-DPAGODA_UNITY=ON",
                "-DPAGODA_NATIVE=OFF",
                *options,
            ],
            stdout=subprocess.DEVNULL,
        )
        if done.returncode:
            return False
    say(f"building {directory.name}" + (": " + ", ".join(targets) if targets else ""))
    # Keep going: if one test program does not compile, the others are still built and run.
    return subprocess.run([*how, "ninja", "-C", directory, "-k", "0", *targets]).returncode == 0


class CppTests:
    """Builds and runs the C++ tests. Each thread that calls run_all() takes the next program until none is left."""

    def __init__(self, tally, directory, env, names):
        self.tally, self.directory, self.env, self.names = tally, directory, env, names
        self.ready = threading.Event()
        self.waiting = queue.SimpleQueue()

    def build(self):
        say("C++ tests")
        try:
            if not build(self.directory, self.names, how=BESIDE):
                self.tally.add(0, ["build"])
            programs = (self.directory / "test_programs.txt").read_text().split()
            by_name = {pathlib.Path(program).name: program for program in programs}
            for name in sorted(by_name, key=lambda name: (*LONGEST_FIRST, name).index(name)):
                if not self.names or name in self.names:
                    self.waiting.put(by_name[name])
        finally:
            self.ready.set()

    def run_all(self, how=BESIDE):
        """Runs test programs with a cache folder per thread, since tests count its files."""
        self.ready.wait()
        env = dict(self.env, PAGODA_CACHE=str(private_cache(pathlib.Path(self.env["PAGODA_CACHE"]))))
        while True:
            try:
                program = self.waiting.get_nowait()
            except queue.Empty:
                return
            report = self.directory / (pathlib.Path(program).name + ".xml")
            command = [program, f"--gtest_output=xml:{report}", "--gtest_brief=0"]
            self.tally.add(*run_program(command, report, env, how=how))


def e2e_tests(tally, directory, env, names):
    folder = ROOT / "tests/e2e"

    def run(part, *arguments):
        report = directory / f"{part}.xml"
        tally.add(
            *run_program(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "-rs",
                    "-p",
                    "no:cacheprovider",
                    f"--junitxml={report}",
                    *map(str, arguments),
                ],
                report,
                env,
                prefix=f"{part}:",
                timeout_s=E2E_TIMEOUT_S,
            )
        )

    if not folder.is_dir():
        return
    if names:
        run("e2e", *(folder / name for name in names))
        return
    beside = threading.Thread(target=run, args=("e2e-waiting", *(folder / name for name in WAITING)))
    beside.start()
    run("e2e", folder, *(f"--ignore={folder / name}" for name in WAITING))
    beside.join()


def tier_tests(tally, directory, env, tier):
    """Runs one tier in the Python environment of its requirements. Returns True if it passed."""
    say(f"tier {tier.name}: {tier.what}")
    python = subprocess.run([ROOT / "script/setup", "--tier", tier.name], stdout=subprocess.PIPE, text=True)
    if python.returncode:
        tally.add(0, [f"{tier.name}: its Python packages"])
        return False
    report = directory / f"tier-{tier.name}.xml"
    result = run_program(
        [
            python.stdout.strip(),
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            str(tier.folder),
        ],
        report,
        env,
        prefix=f"{tier.name}:",
        timeout_s=60 * tier.minutes,
    )
    tally.add(*result)
    return not result[1]


def tiers_for_ci(tiers, cache, seconds_gone):
    """Yields the tiers whose paths changed since they last passed on this machine and that fit into the remaining time.
    Prints the tiers that are left out."""
    left = 60 * CI_MINUTES - seconds_gone
    for tier in sorted(tiers.values(), key=lambda tier: tier.minutes):
        if not tier.in_ci or tier.unchanged(cache):
            continue
        if 60 * tier.minutes > left:
            print(f"    tier {tier.name} takes up to {tier.minutes} minutes and is left out: {left / 60:.0f} are left")
            continue
        left -= 60 * tier.minutes
        yield tier


def fuzz_tests(tally, env):
    script = ROOT / "tests/fuzz/run"
    if not script.exists():
        return
    directory = ROOT / "build-fuzz"
    if not build(
        directory, ["fuzz_targets"], "-DPAGODA_FUZZ=ON", "-DPAGODA_TESTS=OFF", "-DPAGODA_SANITIZE=address,undefined"
    ):
        tally.add(0, ["fuzz targets: build"])
        return
    say(f"fuzzing, {FUZZ_SECONDS} s a target")
    done = subprocess.run(
        [script, directory, str(FUZZ_SECONDS)],
        env=env,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    passed = re.findall(r"^PASS (\S+)", done.stdout, re.M)
    failed = ["fuzz:" + name for name in re.findall(r"^FAIL (\S+)", done.stdout, re.M)]
    if done.returncode and not failed or not passed and not failed:
        failed = [f"fuzz: {script.name} exited with {done.returncode}, {len(passed)} targets passed"]
    if failed:
        print(done.stdout[-20000:])
    print(f"    fuzz: {len(passed)} passed, {len(failed)} failed", flush=True)
    tally.add(len(passed), failed)


def checks(tally, env):
    report = ROOT / "build" / "check.xml"
    report.parent.mkdir(exist_ok=True)
    done = subprocess.run([ROOT / "tools/check"])
    tally.add(done.returncode == 0, [] if done.returncode == 0 else ["tools/check"])
    tally.add(
        *run_program(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                f"--junitxml={report}",
                str(ROOT / "tools"),
            ],
            report,
            env,
            prefix="tools:",
        )
    )


def lint(tally, *options):
    done = subprocess.run([sys.executable, ROOT / "tools/lint", *options])
    tally.add(done.returncode == 0, [] if done.returncode == 0 else [" ".join(["tools/lint", *options])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sanitize", choices=[s for s in BUILD_DIRS if s], default="")
    parser.add_argument("--only", action="append", choices=PARTS, help="run only this part; repeatable")
    tiers = all_tiers()
    parser.add_argument("--tier", action="append", choices=sorted(tiers), help="run only this tier; repeatable")
    parser.add_argument("--ci", action="store_true", help="run the core, then the tiers whose paths changed")
    parser.add_argument("names", nargs="*", help="test programs (kv_cache_test) or files of tests/e2e")
    options = parser.parse_args()
    parts = options.only or (["cpp", "e2e"] if options.sanitize else list(PARTS if options.ci else CORE))
    if options.tier:
        parts = []
    cache = pathlib.Path(os.environ["PAGODA_CACHE"])

    directory = ROOT / BUILD_DIRS[options.sanitize]
    env = dict(
        os.environ,
        PAGODA_BINARY=str(directory / "pagoda"),
        PYTHONDONTWRITEBYTECODE="1",
        ASAN_OPTIONS="detect_leaks=1",
        TSAN_OPTIONS="halt_on_error=1",
    )
    shared = ROOT.parent / "shared" / "data"
    if "PAGODA_SHARED_DATA" not in env and shared.is_dir():
        env["PAGODA_SHARED_DATA"] = str(shared)
    tally = Tally()
    started = time.monotonic()
    if "check" in parts:
        checks(tally, env)
    if "lint" in parts:
        say("linters")
        lint(tally)
    if "cpp" in parts or "e2e" in parts or options.tier:
        wanted = TIER_PROGRAMS if options.tier else options.names if options.only == ["cpp"] else PROGRAMS
        if not build(directory, wanted, f"-DPAGODA_SANITIZE={options.sanitize}"):
            tally.add(0, ["build"])
    if "e2e" in parts or "cpp" in parts or options.tier:
        model = subprocess.run([ROOT / "script/model"], stdout=subprocess.PIPE, text=True)
        if model.returncode == 0:
            env["PAGODA_MODEL"] = model.stdout.strip()
    fetches = "cpp" in parts and not options.sanitize
    if fetches and subprocess.run([ROOT / "script/model", "gemma-3-270m"], stdout=subprocess.DEVNULL).returncode != 0:
        say("gemma-3-270m cannot be had: its tests are skipped")
    # C++ tests are built and run concurrently with the end-to-end tests, which wait more than half of their time. Two
    # C++ test programs run at once, but only one in instrumented builds, which are slow.
    beside = []
    if "cpp" in parts:
        cpp = CppTests(tally, directory, env, options.names)
        beside.append(threading.Thread(target=lambda: (cpp.build(), cpp.run_all())))
        if not options.sanitize:
            beside.append(threading.Thread(target=cpp.run_all, args=(IDLE,)))
        for thread in beside:
            thread.start()
    if "e2e" in parts:
        say("end-to-end tests")
        e2e_tests(tally, directory, env, options.names if options.only == ["e2e"] else [])
    if beside and options.sanitize:
        cpp.run_all()  # from here on, two programs run at once
    for thread in beside:
        thread.join()
    if "fuzz" in parts:
        left = CI_MINUTES - (time.monotonic() - started) / 60
        if options.ci and left < FUZZ_MINUTES:
            print(f"    fuzzing takes up to {FUZZ_MINUTES} minutes and is left out: {left:.0f} are left")
        else:
            fuzz_tests(tally, env)
    if "lint" in parts and options.ci:
        left = CI_MINUTES - (time.monotonic() - started) / 60
        if left < TIDY_MINUTES:
            print(f"    clang-tidy takes up to {TIDY_MINUTES} minutes and is left out: {left:.0f} are left")
        else:
            lint(tally, "--tidy")
    chosen = [tiers[name] for name in options.tier or []]
    if options.ci and not tally.failed:
        chosen = list(tiers_for_ci(tiers, cache, time.monotonic() - started))
    for tier in chosen:
        if tier_tests(tally, directory, env, tier) and not options.sanitize:
            tier.passed(cache)

    for name, reason in tally.skipped:
        print(f"skipped: {name}: {reason}")
    for name in tally.failed:
        print(f"FAILED: {name}")
    say(f"{time.monotonic() - started:.0f} s")
    print(
        f"{tally.passed} passed, {len(tally.failed)} failed"
        + (f", {len(tally.skipped)} skipped" if tally.skipped else ""),
        flush=True,
    )
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
