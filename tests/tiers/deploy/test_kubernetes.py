"""The manifests, and the chart as rendered by Helm's own Go library (from a wheel). Both are valid under Kubernetes'
schemas, match the program that they start, and agree with each other."""

import copy
import pathlib
import re
import subprocess
import sys

import helm_python
import httpx
import pytest
import yaml
from conftest import ROOT, binary, serving, small_model

FOLDER = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/pagoda"
ALL = {"autoscaling": {"enabled": True}, "podMonitor": {"enabled": True}}


def plain():
    return [
        one
        for file in ("pagoda.yaml", "autoscaling.yaml", "podmonitor.yaml")
        for one in yaml.safe_load_all((FOLDER / file).read_text())
    ]


def rendered(values, name="pagoda"):
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=name, namespace="models")
    parsed = [one for file, text in files.items() if not file.endswith(".txt") for one in yaml.safe_load_all(text)]
    return [one for one in parsed if one is not None]


class Manifests:
    def __init__(self, resources):
        self.resources = resources
        self.kinds = {resource["kind"]: resource for resource in resources}
        assert len(self.kinds) == len(resources)
        self.pod = self.kinds["Deployment"]["spec"]["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.config = self.kinds["ConfigMap"]["data"]["pagoda.yaml"]
        self.flags = yaml.safe_load(self.config)


@pytest.fixture(params=["plain", "helm"])
def manifests(request):
    return Manifests(plain() if request.param == "plain" else rendered(ALL))


@pytest.mark.parametrize("version", ["1.30", "1.33", "1.37"])
def test_valid_by_the_schemas(manifests, version, tmp_path):
    known = [one for one in manifests.resources if one["kind"] != "PodMonitor"]  # the operator's kind
    assert len(known) == 5
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(known))
    done = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version, file],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "passed" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_wrong_field_is_found(tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((FOLDER / "pagoda.yaml").read_text().replace("readinessProbe:", "readynessProbe:"))
    done = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", "1.33", wrong], capture_output=True, timeout=120
    )
    assert done.returncode != 0


def test_the_flags_are_the_programs(manifests, tmp_path):
    config = tmp_path / "pagoda.yaml"
    config.write_text(manifests.config)
    done = subprocess.run([binary(), "config", "check", config], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert manifests.container["args"][:1] == ["serve"]


def test_running_requests_may_end_before_the_pod_does(manifests):
    wait = manifests.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert manifests.pod["terminationGracePeriodSeconds"] > wait + manifests.flags["shutdown-timeout"]


def test_restricted_pod_security(manifests):
    """The pods meet the level "restricted" of Kubernetes' Pod Security Standards."""
    security, of_container = manifests.pod["securityContext"], manifests.container["securityContext"]
    assert (
        security["runAsNonRoot"]
        and security["runAsUser"] > 0
        and security["seccompProfile"]["type"] == "RuntimeDefault"
    )
    assert of_container["allowPrivilegeEscalation"] is False and of_container["capabilities"] == {"drop": ["ALL"]}
    assert of_container["readOnlyRootFilesystem"] is True
    assert set(manifests.pod) & {"hostNetwork", "hostPID", "hostIPC"} == set()
    assert all(
        set(volume) <= {"name", "configMap", "emptyDir", "persistentVolumeClaim", "ephemeral"}
        for volume in manifests.pod["volumes"]
    )


def test_no_two_pods_need_a_claim_that_one_node_can_have(manifests):
    once = {
        one["metadata"]["name"]
        for one in manifests.resources
        if one["kind"] == "PersistentVolumeClaim" and "ReadWriteMany" not in one["spec"]["accessModes"]
    }
    shared = {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in manifests.pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert not once & shared
    (models,) = (volume for volume in manifests.pod["volumes"] if volume["name"] == "models")
    assert models["ephemeral"]["volumeClaimTemplate"]["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_everything_selects_the_same_pods(manifests):
    labels = manifests.kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    monitor = manifests.kinds["PodMonitor"]
    selectors = [
        manifests.kinds["Deployment"]["spec"]["selector"]["matchLabels"],
        manifests.kinds["Service"]["spec"]["selector"],
        manifests.kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        monitor["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    port = {p["name"]: p["containerPort"] for p in manifests.container["ports"]}
    assert port == {"http": manifests.flags["port"]} and monitor["spec"]["podMetricsEndpoints"][0]["port"] == "http"
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert all((FOLDER / file).exists() for file in listed)


def test_probes_and_metrics_are_there(manifests):
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    metric = re.search(r"\^([\w:]+)\$", rule["seriesQuery"])[1]
    assert (
        rule["name"]["as"] == manifests.kinds["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]["name"]
    )
    with serving(small_model()) as server:
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            # As a kubelet does: by the pod's address, without a key.
            answer = httpx.get(
                server.url + manifests.container[probe]["httpGet"]["path"],
                headers={"User-Agent": "kube-probe/1.33"},
                timeout=10,
            )
            assert answer.status_code == 200
        assert any(name.startswith(metric + "{") for name in server.metrics())


def substance(resources):
    """Returns resources by kind, without the parts that only Helm needs: its labels, and the checksum that restarts
    pods when flags change."""
    own = {"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"}

    def strip(value):
        if isinstance(value, dict):
            if "pagoda.yaml" in value:
                return {**value, "pagoda.yaml": yaml.safe_load(value["pagoda.yaml"])}
            return {key: strip(one) for key, one in value.items() if key not in own}
        return [strip(one) for one in value] if isinstance(value, list) else value

    out = strip(copy.deepcopy({resource["kind"]: resource for resource in resources}))
    out["Deployment"]["spec"]["template"]["metadata"].pop("annotations", None)
    return out


def test_the_chart_says_what_the_plain_manifests_say():
    said, of_chart = substance(plain()), substance(rendered(ALL))
    # With an autoscaler, no other manifest sets the number of replicas.
    assert said["Deployment"]["spec"].pop("replicas") == substance(rendered({}))["Deployment"]["spec"].pop("replicas")
    assert of_chart == said
    without = substance(rendered({}))
    assert set(said) - set(without) == {"HorizontalPodAutoscaler", "PodMonitor"}


def test_helm_has_nothing_against_the_chart():
    report = helm_python.lint(str(CHART))
    assert report["errors"] == [] and [one["error"] for one in report["messages"]] == ["icon is recommended"], report
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = subprocess.run(
        [binary(), "--version"], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()[1]
    assert chart["version"] == chart["appVersion"] == version
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"]["name"] == f"pagoda:{version}"


def test_two_releases_keep_apart():
    one, other = (Manifests(rendered(ALL, name)) for name in ("chat", "pagoda-code"))
    assert (
        one.kinds["Service"]["metadata"]["name"] == "chat-pagoda"
        and other.kinds["Service"]["metadata"]["name"] == "pagoda-code"
    )
    labels = other.kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert not one.kinds["Service"]["spec"]["selector"].items() <= labels.items()
    for made in (one, other):
        name = made.kinds["Deployment"]["metadata"]["name"]
        assert {resource["metadata"]["name"] for resource in made.resources} == {name}
        assert made.kinds["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == name
        assert made.pod["volumes"][0]["configMap"]["name"] == name
        assert {one["valueFrom"]["secretKeyRef"]["name"] for one in made.container["env"] if "valueFrom" in one} == {
            name
        }


def test_values_go_where_they_belong():
    made = Manifests(
        rendered(
            {
                "flags": {"model": "ORG/NAME", "port": 9000, "shutdown-timeout": 200, "max-num-seqs": 8},
                "preStopSeconds": 20,
                "replicas": 5,
                "image": {"name": "registry.example/pagoda:1", "pullSecrets": ["reader"]},
                "secret": "keys",
                "startupSeconds": 60,
                "models": {"existingClaim": "weights"},
                "nodeSelector": {"zone": "a"},
                "tolerations": [{"key": "big", "operator": "Exists"}],
                "podMonitor": {"enabled": True, "authorization": {"credentials": {"name": "keys", "key": "metrics"}}},
            }
        )
    )
    assert made.flags == {
        "model": "ORG/NAME",
        "host": "0.0.0.0",
        "port": 9000,
        "kv-cache-memory-bytes": "1GiB",
        "shutdown-timeout": 200,
        "max-num-seqs": 8,
    }
    assert (
        made.pod["terminationGracePeriodSeconds"] == 20 + 200 + 15
        and made.container["lifecycle"]["preStop"]["sleep"]["seconds"] == 20
    )
    assert (
        made.container["ports"][0]["containerPort"] == 9000 and made.container["startupProbe"]["failureThreshold"] == 12
    )
    assert made.kinds["Deployment"]["spec"]["replicas"] == 5
    assert made.pod["volumes"][1]["persistentVolumeClaim"]["claimName"] == "weights"
    assert (
        made.pod["imagePullSecrets"] == [{"name": "reader"}]
        and made.pod["nodeSelector"] == {"zone": "a"}
        and made.pod["tolerations"]
    )
    assert {one["valueFrom"]["secretKeyRef"]["name"] for one in made.container["env"] if "valueFrom" in one} == {"keys"}
    assert (
        made.kinds["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["authorization"]["credentials"]["key"] == "metrics"
    )
    own = Manifests(rendered({"models": {"storageClassName": "fast", "size": "5Gi"}})).pod["volumes"][1]["ephemeral"][
        "volumeClaimTemplate"
    ]
    assert own["spec"]["storageClassName"] == "fast" and own["spec"]["resources"]["requests"]["storage"] == "5Gi"
    # Changed flags restart the pods.
    sums = {
        one.kinds["Deployment"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for one in (made, Manifests(rendered({})))
    }
    assert len(sums) == 2


@pytest.mark.parametrize(
    "values, said",
    [
        ({"replicaCount": 3}, "replicaCount"),
        ({"flags": {"shutdown-timeout": "45s"}}, "/flags/shutdown-timeout"),
        ({"flags": {"port": 80}}, "/flags/port"),
        ({"flags": {"model": ""}}, "/flags/model"),
        ({"flags": {"api-key": "secret"}}, "/flags"),
        ({"resources": {"limits": {"memory": None}}}, "memory"),
    ],
)
def test_wrong_values_are_refused_by_name(values, said):
    with pytest.raises(helm_python.HelmError, match=re.escape(said)):
        rendered(values)


def test_every_value_is_used_and_has_a_schema():
    values, schema = (
        yaml.safe_load((CHART / "values.yaml").read_text()),
        yaml.safe_load((CHART / "values.schema.json").read_text()),
    )
    templates = "".join(path.read_text() for path in pathlib.Path(CHART / "templates").iterdir())
    for name, value in values.items():
        inner = value if isinstance(value, dict) and name not in ("flags", "resources", "nodeSelector") else {"": None}
        for key in inner:
            assert f".Values.{name}" + (f".{key}" if key else "") in templates, (name, key)
        assert set(
            value if isinstance(value, dict) and "properties" in schema["properties"][name] and name != "flags" else {}
        ) <= set(schema["properties"][name].get("properties", {})), name
    assert set(schema["properties"]) - {"global"} == set(values)
