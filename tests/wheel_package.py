"""The Python package as users get it: of the wheel, which is made unless PAGODA_WHEEL names one."""

import os
import pathlib
import subprocess
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def package(kind, variable, folder):
    """A package of script/package: the one that the environment names, else made now into `folder`."""
    if given := os.environ.get(variable):
        return pathlib.Path(given)
    run = subprocess.run([ROOT / "script/package", "--to", folder, kind], capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stderr[-3000:]
    return pathlib.Path(run.stdout.strip().splitlines()[-1])


def unpacked_wheel(wheel, folder):
    """A folder for PYTHONPATH."""
    zipfile.ZipFile(wheel).extractall(folder)
    return folder
