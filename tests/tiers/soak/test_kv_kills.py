"""A thousand servers use one --kv-disk in succession, each killed while it writes: the bits of every answer stay the
same."""

import os

from kv_disk import kill_and_compare

KILLS = int(os.environ.get("PAGODA_KV_KILLS", "1000"))


def test_killed_a_thousand_times(tmp_path):
    assert kill_and_compare(tmp_path / "kv", KILLS) > KILLS / 2
