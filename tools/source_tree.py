"""The files of the tree that tools/check and tools/lint read."""

import shutil
import subprocess

CXX_SUFFIXES = {".h", ".cc", ".cpp", ".cu", ".cuh"}


def tracked_files(root):
    """Returns the files that git tracks or would track; without git, all files outside build folders."""
    if (root / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"], stdout=subprocess.PIPE, check=True
        ).stdout.decode()
        return sorted(name for name in listing.split("\0") if name and (root / name).is_file())
    return sorted(
        str(p.relative_to(root))
        for p in root.rglob("*")
        if p.is_file() and not p.relative_to(root).parts[0].startswith((".git", "build"))
    )
