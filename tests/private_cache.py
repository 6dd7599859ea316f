"""A cache folder for one run of the tests: what they pack is not the user's."""

import atexit
import pathlib
import shutil
import tempfile


def private_cache(home):
    """A new folder with the models of the cache at `home`; gone when the program ends."""
    cache = pathlib.Path(tempfile.mkdtemp(prefix="pagoda-test-cache-"))
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    (cache / "models").symlink_to(home / "models")
    return cache
