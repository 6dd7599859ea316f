"""Every command in the README and the pages of docs/ exists and accepts the flags that are shown with it."""

import fnmatch
import functools
import os
import re
import shlex
import subprocess

import pytest
from conftest import ROOT, binary

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))]
PROGRAMS = ("pagoda", "build/pagoda")
FOLDERS = ("script/", "bench/", "tools/")
# Programs of other projects that pages run.
OTHERS = ("curl", "mpirun", "pip", "apt", "tar", "podman", "kubectl", "systemctl", "cmake")


def shown_commands(page, others=()):
    """Returns the commands of a page without comments: indented or fenced lines that begin with a program of Pagoda or
    one of `others`."""
    lines, fenced = [], False
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            lines.append(line if fenced else line[4:])
        else:
            lines.append("")
    text = iter(re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines())
    for line in text:
        while "'{" in line and "}'" not in line:  # JSON of several lines
            line = line.strip() + " " + next(text).strip()
        line = re.split(r"\s{2,}#|\s#\s|\s{3,}", line.strip().removeprefix("$ "))[0].strip()
        first = line.split(" ")[0].removesuffix(",")
        if first in PROGRAMS or first in others or (first.startswith(FOLDERS) and " = " not in line):
            yield line


ALL = [(page, list(shown_commands(page))) for page in PAGES]


@functools.cache
def help_of(*command):
    done = subprocess.run([binary(), *command, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_of(line):
    """Returns the names of a line that may name several commands, such as `pagoda simulate, plan`."""
    head = re.match(r"\S+ ([a-z-]+(?:, [a-z-]+)*)", line)
    assert head, line
    return head[1].split(", ")


@pytest.mark.parametrize("page, lines", ALL, ids=PAGES)
def test_commands_and_flags_are_there(page, lines):
    for line in lines:
        first = line.split(" ")[0]
        flags = re.findall(r"(?<!\S)--[\w-]+", line)
        if first in PROGRAMS:
            for name in names_of(line):
                sub = [
                    w
                    for w in shlex.split(line)[2:3]
                    if name in ("bench", "cache", "config", "key") and re.fullmatch(r"[a-z-]+", w)
                ]
                known = help_of(name, *sub)
                for flag in flags:
                    spelled = (flag, f"--[no-]{flag[2:]}", f"--[no-]{flag[5:]}" if flag.startswith("--no-") else flag)
                    assert any(re.search(rf"{re.escape(s)}(?![\w-])", known) for s in spelled), (
                        f"{page}: {line}: {flag}"
                    )
        else:
            script = ROOT / first
            assert os.access(script, os.X_OK), f"{page}: {line}"
            source = script.read_text(errors="replace")
            source += "".join(
                p.read_text()
                for p in (ROOT / "tools/run_tests.py", ROOT / "script/setup")
                if first in ("script/test", "script/server") and p.exists()
            )
            if first == "script/server":  # its other arguments are those of serve
                source += help_of("serve")
            for flag in flags:
                assert flag in source, f"{page}: {line}: {flag}"


def test_no_page_is_longer_than_200_lines():
    texts = {page: (ROOT / page).read_text() for page in PAGES}
    written = {
        page: re.sub(r"```diff\n.*?```", "", text, flags=re.S)  # diffs are applied by another test
        for page, text in texts.items()
        if "<!-- made by `pagoda man" not in text
    }
    assert [page for page, text in written.items() if len(text.splitlines()) > 200] == []


def test_the_tests_named_on_the_robustness_page_are_there():
    page = (ROOT / "docs/robustness.md").read_text()
    units = set()
    for file in (ROOT / "src").rglob("*_test.cc"):
        units.update(
            f"{suite}.{name}"
            for suite, name in re.findall(r"^TEST(?:_P|_F)?\((\w+),\s*(\w+)\)", file.read_text(), re.M)
        )
    ends = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`([A-Z]\w+\.[\w*]+)`", page):
        assert any(fnmatch.fnmatchcase(unit, name) for unit in units), name
    for name in re.findall(r"`(test_\w+)`", page):
        assert f"def {name}(" in ends, name
    for name in re.findall(r"`(test_\w+\.py)`", page):
        assert (ROOT / "tests/e2e" / name).exists(), name
    for name in re.findall(r"`(\w+_fuzz)`", page):
        assert (ROOT / "tests/fuzz" / f"{name}.cc").exists(), name
    for name in re.findall(r"the tiers? `(\w+)`", page):
        assert (ROOT / "tests/tiers" / name / "tier.json").exists(), name
