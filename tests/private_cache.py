"""A separate cache folder for a run of the tests, so that packed weights do not go to the user's cache."""

import atexit
import pathlib
import shutil
import tempfile


def private_cache(home):
    """Returns a new folder with the models of the cache at `home`. It is deleted when the program ends."""
    cache = pathlib.Path(tempfile.mkdtemp(prefix="pagoda-test-cache-"))
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    (cache / "models").symlink_to(home / "models")
    return cache
