"""Test tiers other than the core. Each folder of tests/tiers/ is a tier: tier.json states its purpose, the paths of the
tree that it depends on, its longest duration, and whether CI runs it; requirements.txt pins its Python packages.

CI runs a tier if the paths that it depends on have changed since the tier last passed on this machine. For this, the
Git hashes of the paths are kept in the cache folder. On a new machine, CI runs every tier."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/tiers"


class Tier:
    def __init__(self, folder):
        about = json.loads((folder / "tier.json").read_text())
        self.folder, self.name = folder, folder.name
        self.what, self.paths, self.minutes = about["what"], about["paths"], about["minutes"]
        self.in_ci = about.get("ci", True)
        self.requirements = folder / "requirements.txt"

    def state(self):
        """Returns the Git hashes of the paths that the tier depends on, as one string. Empty outside a Git repository
        or if the paths have uncommitted changes."""
        paths = [*self.paths, "tests/conftest.py", str(self.folder.relative_to(ROOT))]
        changes = subprocess.run(
            ["git", "-C", ROOT, "status", "--porcelain", "--", *paths],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if changes.returncode or changes.stdout.strip():
            return ""
        listing = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", *(f"HEAD:{path}" for path in paths)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return listing.stdout if listing.returncode == 0 else ""

    def stamp(self, cache):
        return cache / "tiers" / self.name

    def unchanged(self, cache):
        stamp, state = self.stamp(cache), self.state()
        return bool(state) and stamp.exists() and stamp.read_text() == state

    def passed(self, cache):
        if state := self.state():
            self.stamp(cache).parent.mkdir(parents=True, exist_ok=True)
            self.stamp(cache).write_text(state)


def all_tiers():
    return {path.parent.name: Tier(path.parent) for path in sorted(FOLDER.glob("*/tier.json"))}
