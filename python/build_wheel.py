"""The build backend of the wheel (PEP 517), called by `pip wheel` and `pip install`. The package is pure Python over
libpagoda, so one wheel works with every CPython version. The wheel is a zip file of the outputs of script/build."""

import base64
import hashlib
import pathlib
import re
import subprocess
import tempfile
import zipfile

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
TAG = "py3-none-linux_x86_64"  # auditwheel later adds the glibc version


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    subprocess.run([ROOT / "script/build", "pagoda", "libpagoda.so", "libpagoda_kv.so"], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(r"project\(pagoda VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    stem = f"{project['name'].replace('-', '_')}-{version}"
    name = f"{stem}-{TAG}.whl"
    with Wheel(pathlib.Path(wheel_directory, name), f"{stem}.dist-info") as wheel:
        for package in ("pagoda", "pagoda_kv"):
            paths = (ROOT / "python" / package).rglob("*")
            for path in sorted(path for path in paths if path.suffix == ".py" or path.name == "py.typed"):
                wheel.add(str(path.relative_to(ROOT / "python")), path.read_bytes())
        wheel.add("pagoda/include/pagoda.h", (ROOT / "include/pagoda.h").read_bytes())
        wheel.add("pagoda/libpagoda.so.0", stripped(ROOT / "build/libpagoda.so"), 0o755)
        wheel.add("pagoda_kv/libpagoda_kv.so.1", stripped(ROOT / "build/libpagoda_kv.so"), 0o755)
        wheel.add(f"{stem}.data/scripts/pagoda", stripped(ROOT / "build/pagoda"), 0o755)
        for license_file in project["license-files"]:
            wheel.add(f"{stem}.dist-info/licenses/{license_file}", (ROOT / license_file).read_bytes())
        wheel.add(f"{stem}.dist-info/METADATA", metadata(project, version).encode())
        about = f"Wheel-Version: 1.0\nGenerator: pagoda\nRoot-Is-Purelib: false\nTag: {TAG}\n"
        wheel.add(f"{stem}.dist-info/WHEEL", about.encode())
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no sdist: build from a clone, or install a release's wheel")


class Wheel:
    """A zip file whose last entry, RECORD, lists the hash and size of every file."""

    def __init__(self, path, info):
        self.zip, self.record, self.rows = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED), f"{info}/RECORD", []

    def __enter__(self):
        return self

    def add(self, name, content, mode=0o644):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(content)}\n")
        self._write(name, content, mode)

    def _write(self, name, content, mode):
        entry = zipfile.ZipInfo(name)  # dated 1980, so that the same files produce the same wheel
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, content)

    def __exit__(self, kind, error, trace):
        if kind is None:
            self._write(self.record, "".join([*self.rows, f"{self.record},,\n"]).encode(), 0o644)
        self.zip.close()


def stripped(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "stripped")
        subprocess.run(["strip", "-o", path, program], check=True)
        return path.read_bytes()


def metadata(project, version):
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        f"License-Expression: {project['license']}",
        *(f"License-File: {path}" for path in project["license-files"]),
        *(f"Classifier: {name}" for name in project["classifiers"]),
    ]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {need}; extra == "{extra}"' for need in needs)]
    readme = (ROOT / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])
