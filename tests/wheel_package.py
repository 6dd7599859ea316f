"""The Python package as users get it: from the wheel, which is built unless PAGODA_WHEEL names one."""

import os
import pathlib
import subprocess
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def package(kind, variable, folder):
    """Returns a package of script/package: the one named in the environment, or else a new one in `folder`."""
    if given := os.environ.get(variable):
        return pathlib.Path(given)
    run = subprocess.run([ROOT / "script/package", "--to", folder, kind], capture_output=True, text=True, timeout=1200)
    assert run.returncode == 0, run.stderr[-3000:]
    return pathlib.Path(run.stdout.strip().splitlines()[-1])


def unpacked_wheel(wheel, folder):
    """Returns a folder for PYTHONPATH with the contents of the wheel."""
    zipfile.ZipFile(wheel).extractall(folder)
    return folder
