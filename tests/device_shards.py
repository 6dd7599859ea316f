"""Builds the tiers' test programs of devices and families and runs them in as many processes as there are cores."""

import concurrent.futures
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


DEVICES = ("device_test", "device_runner_test")


def build(*targets, programs=DEVICES):
    configured = subprocess.run(
        [
            "cmake",
            "-S",
            ROOT,
            "-B",
            BUILD,
            "-G",
            "Ninja",
            "-DCMAKE_C_COMPILER=clang-19",
            "-DCMAKE_CXX_COMPILER=clang++-19",
        ],
        capture_output=True,
        text=True,
    )
    assert configured.returncode == 0, configured.stderr
    built = subprocess.run(["ninja", "-C", BUILD, *targets, *programs], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout


def run(tests, seeds, program="device_runner_test"):
    """Runs the tests selected by a GoogleTest filter, with `seeds` device seeds and all goldens, in one process per
    core."""
    shards = len(os.sched_getaffinity(0))

    def share(index):
        return subprocess.run(
            [BUILD / "src" / program, "--gtest_brief=1", f"--gtest_filter={tests}"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PAGODA_DEVICE_SEEDS": str(seeds),
                "PAGODA_FULL_GOLDENS": "1",
                "GTEST_TOTAL_SHARDS": str(shards),
                "GTEST_SHARD_INDEX": str(index),
            },
        )

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        for done in pool.map(share, range(shards)):
            assert done.returncode == 0, done.stdout[-4000:]


# Tests that have their own tiers: ranks on several devices and KV tiers, and each family alone.
RANKS_AND_TIERS = "*SplitFamily*:DeviceRanks*:*DeviceTiers*"
FAMILIES = "All/Family.*:Models/Golden.*"
