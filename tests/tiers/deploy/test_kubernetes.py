"""The manifests: valid by Kubernetes' own schemas, and true of the program that they start."""
import re
import subprocess
import sys

import httpx
import pytest
import yaml

from conftest import ROOT, binary, serving, small_model

FOLDER = ROOT / "deploy/kubernetes"
RESOURCES = [resource for file in ("pagoda.yaml", "autoscaling.yaml") for resource in yaml.safe_load_all((FOLDER / file).read_text())]
KINDS = {resource["kind"]: resource for resource in RESOURCES}
POD = KINDS["Deployment"]["spec"]["template"]["spec"]
CONTAINER, = POD["containers"]


@pytest.mark.parametrize("version", ["1.30", "1.33", "1.37"])
@pytest.mark.parametrize("file", ["pagoda.yaml", "autoscaling.yaml"])
def test_valid_by_the_schemas(file, version):
    done = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, FOLDER / file],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "passed" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_wrong_field_is_found(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((FOLDER / "pagoda.yaml").read_text().replace("readinessProbe:", "readynessProbe:"))
    done = subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", "-k", "1.33", wrong], capture_output=True, timeout=120)
    assert done.returncode != 0


def flags():
    return yaml.safe_load(KINDS["ConfigMap"]["data"]["pagoda.yaml"])


def test_the_flags_are_the_programs(tmp_path):
    config = tmp_path / "pagoda.yaml"
    config.write_text(KINDS["ConfigMap"]["data"]["pagoda.yaml"])
    done = subprocess.run([binary(), "config", "check", config], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert CONTAINER["args"][:1] == ["serve"]


def test_running_requests_may_end_before_the_pod_does():
    wait = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["terminationGracePeriodSeconds"] > wait + flags()["shutdown-timeout"]


def test_restricted_pod_security():
    """The levels of Kubernetes' Pod Security Standards, "restricted"."""
    security, of_container = POD["securityContext"], CONTAINER["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] > 0 and security["seccompProfile"]["type"] == "RuntimeDefault"
    assert of_container["allowPrivilegeEscalation"] is False and of_container["capabilities"] == {"drop": ["ALL"]}
    assert of_container["readOnlyRootFilesystem"] is True
    assert set(POD) & {"hostNetwork", "hostPID", "hostIPC"} == set()
    assert all(set(volume) <= {"name", "configMap", "emptyDir", "persistentVolumeClaim"} for volume in POD["volumes"])


def test_everything_selects_the_same_pods():
    labels = KINDS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())
    selectors = [KINDS["Deployment"]["spec"]["selector"]["matchLabels"], KINDS["Service"]["spec"]["selector"],
                 KINDS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], monitor["spec"]["selector"]["matchLabels"]]
    assert all(selector.items() <= labels.items() for selector in selectors)
    port = {p["name"]: p["containerPort"] for p in CONTAINER["ports"]}
    assert port == {"http": flags()["port"]} and monitor["spec"]["podMetricsEndpoints"][0]["port"] == "http"
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert all((FOLDER / file).exists() for file in listed)


def test_probes_and_metrics_are_there():
    rule, = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    metric = re.search(r"\^([\w:]+)\$", rule["seriesQuery"])[1]
    assert rule["name"]["as"] == KINDS["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]["name"]
    with serving(small_model()) as server:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            # As a kubelet asks: by the pod's address, without a key.
            answer = httpx.get(server.url + CONTAINER[probe]["httpGet"]["path"], headers={"User-Agent": "kube-probe/1.33"}, timeout=10)
            assert answer.status_code == 200
        assert any(name.startswith(metric + "{") for name in server.metrics())
