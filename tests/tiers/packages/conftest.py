"""Makes the packages once, and puts the wheel's Python package on the path of these tests."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from wheel_package import package, unpacked_wheel  # noqa: E402


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    return package("wheel", "PAGODA_WHEEL", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    return package("deb", "PAGODA_DEB", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def tarball(tmp_path_factory):
    return package("tarball", "PAGODA_TARBALL", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def pagoda_model():
    """The default model, which can chat."""
    path = os.environ.get("PAGODA_MODEL")
    if not path or not pathlib.Path(path).exists():
        pytest.skip("PAGODA_MODEL names no model")
    return path


@pytest.fixture(scope="session")
def pagoda(wheel, tmp_path_factory):
    """Imports the module."""
    folder = unpacked_wheel(wheel, tmp_path_factory.mktemp("site"))
    sys.path.insert(0, str(folder))
    import pagoda

    assert pagoda.__file__.startswith(str(folder))
    return pagoda


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    from small_model import write_small_model

    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_small_model(path)
    return str(path)


@pytest.fixture(scope="session")
def program():
    path = pathlib.Path(os.environ.get("PAGODA_BINARY", ROOT / "build/pagoda"))
    if not path.exists():
        pytest.skip(f"no program at {path}")
    return path
