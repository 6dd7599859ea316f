"""clang-tidy reports no error in any file of src/ (.clang-tidy lists the checks)."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_whole_tree():
    done = subprocess.run([sys.executable, ROOT / "tools/lint", "--tidy", "--all"], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
