"""Files for operators: systemd unit, alert rules, dashboard. The metrics that they use must exist."""

import json
import pathlib
import re
import shutil
import subprocess

import httpx
import pytest
from conftest import ROOT, binary, serving, small_model

DEPLOY = ROOT / "deploy"


def test_the_unit_gives_little_away():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not rated")
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--threshold=20",
            "--no-pager",
            str(DEPLOY / "pagoda.service"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


def test_alert_rules_by_promtool():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: the alert rules are not checked")
    subprocess.run(["promtool", "check", "rules", str(DEPLOY / "alerts.yaml")], check=True, timeout=60)


def test_rules_and_dashboard_ask_for_metrics_that_there_are():
    asked = (DEPLOY / "alerts.yaml").read_text()
    asked += " ".join(
        target["expr"]
        for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]
        for target in panel["targets"]
    )
    names = set(re.findall(r"\b(?:vllm:|pagoda:|process_|http_)\w+", asked))
    assert len(names) > 15
    with serving(small_model()) as server:
        httpx.post(server.url + "/v1/completions", json={"prompt": "x", "max_tokens": 2}, timeout=60)
        served = {
            line.split("{")[0].split()[0]
            for line in httpx.get(server.url + "/metrics").text.splitlines()
            if line and line[0] != "#"
        }
        families = {
            line.split()[2]
            for line in httpx.get(server.url + "/metrics").text.splitlines()
            if line.startswith("# TYPE ")
        }
    assert names <= served | families, names - served - families


def test_the_bill_of_materials(tmp_path):
    out = tmp_path / "pagoda.spdx.json"
    subprocess.run([ROOT / "tools/sbom", binary(), "1.2.3", "somewhere", out], check=True, timeout=60)
    bill = json.loads(out.read_text())
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["dataLicense"] == "CC0-1.0"
    ids = [part["SPDXID"] for part in bill["packages"]]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    for relation in bill["relationships"]:
        assert {relation["spdxElementId"], relation["relatedSpdxElement"]} <= {*ids, "SPDXRef-DOCUMENT"}
    assert all(part["licenseDeclared"] != "NOASSERTION" for part in bill["packages"])
    # It lists the libraries of the build.
    text = out.read_text().lower()
    linked = re.findall(r"^pagoda_static_library\(\S+ (\S+)\)", (ROOT / "cmake/third_party.cmake").read_text(), re.M)
    assert len(linked) >= 6
    for library in linked:
        assert f"lib{library}.a" in text or not pathlib.Path("/etc/debian_version").exists(), library


def test_the_program_is_hardened():
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed: the program's hardening is not checked")

    def told(*flags):
        return subprocess.run(
            ["readelf", "--wide", *flags, binary()], capture_output=True, text=True, check=True, timeout=60
        ).stdout

    assert "Type:                              DYN" in told("--file-header"), "position independent"
    segments, dynamic, symbols = told("--program-headers"), told("--dynamic"), told("--dyn-syms")
    assert "GNU_RELRO" in segments and re.search(r"\bNOW\b", dynamic)
    assert re.search(r"GNU_STACK .* RW ", segments), "no code on the stack"
    assert "__stack_chk_fail" in symbols
