"""Ranks on emulated devices compared with one device, and rows that leave a device and return. The core tests a few
families and orders; this tier tests all families that can be divided, with 50 stream orders, and ranks with a tenth of
them.

PAGODA_DEVICE_SEEDS=200 tries 200 orders."""

import os

import device_shards


def test_ranks_and_tiers():
    device_shards.build()
    device_shards.run(device_shards.RANKS_AND_TIERS, os.environ.get("PAGODA_DEVICE_SEEDS", "50"))
