"""What an operator gets beside the program: unit, alert rules, dashboard. Their metrics must exist."""
import json
import re
import shutil
import subprocess

import httpx
import pytest

from conftest import ROOT, serving, small_model

DEPLOY = ROOT / "deploy"


def test_the_unit_gives_little_away():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: the unit is not rated")
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
                           str(DEPLOY / "pagoda.service")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


def test_alert_rules_by_promtool():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: the alert rules are not checked")
    subprocess.run(["promtool", "check", "rules", str(DEPLOY / "alerts.yaml")], check=True, timeout=60)


def test_rules_and_dashboard_ask_for_metrics_that_there_are():
    asked = (DEPLOY / "alerts.yaml").read_text()
    asked += " ".join(target["expr"] for panel in json.loads((DEPLOY / "grafana.json").read_text())["panels"]
                      for target in panel["targets"])
    names = set(re.findall(r"\b(?:vllm:|pagoda:|process_|http_)\w+", asked))
    assert len(names) > 15
    with serving(small_model()) as server:
        httpx.post(server.url + "/v1/completions", json={"prompt": "x", "max_tokens": 2}, timeout=60)
        served = {line.split("{")[0].split()[0] for line in httpx.get(server.url + "/metrics").text.splitlines()
                  if line and line[0] != "#"}
        families = {line.split()[2] for line in httpx.get(server.url + "/metrics").text.splitlines()
                    if line.startswith("# TYPE ")}
    assert names <= served | families, names - served - families
