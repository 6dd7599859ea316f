"""What the core tries for a few families and orders: ranks on emulated devices against one device, and rows that leave
a device and come back. All families that can be cut, 50 orders of streams, a tenth of them of ranks.

PAGODA_DEVICE_SEEDS=200 tries so many."""

import concurrent.futures
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / "build"
SEEDS = os.environ.get("PAGODA_DEVICE_SEEDS", "50")
TESTS = "*SplitFamily*:DeviceRanks*:*DeviceTiers*"


def test_ranks_and_tiers():
    """In as many processes as there are cores: each runs its share of the tests."""
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
    built = subprocess.run(["ninja", "-C", BUILD, "device_runner_test"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout
    shards = len(os.sched_getaffinity(0))

    def share(index):
        return subprocess.run(
            [BUILD / "src/device_runner_test", "--gtest_brief=1", f"--gtest_filter={TESTS}"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PAGODA_DEVICE_SEEDS": SEEDS,
                "PAGODA_FULL_GOLDENS": "1",
                "GTEST_TOTAL_SHARDS": str(shards),
                "GTEST_SHARD_INDEX": str(index),
            },
        )

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        for done in pool.map(share, range(shards)):
            assert done.returncode == 0, done.stdout[-4000:]
