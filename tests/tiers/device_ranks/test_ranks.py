"""What the core tries for a few families and orders: ranks on emulated devices against one device, and rows that leave
a device and come back. All families that can be cut, 50 orders of streams, a tenth of them of ranks.

PAGODA_DEVICE_SEEDS=200 tries so many."""

import os

import device_shards


def test_ranks_and_tiers():
    device_shards.build()
    device_shards.run(device_shards.RANKS_AND_TIERS, os.environ.get("PAGODA_DEVICE_SEEDS", "50"))
