"""Examples for operators: the dashboard fits the figures, the manifests fit the settings."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mcp_server_qdrant.core.datatypes import Status
from mcp_server_qdrant.http.monitor import Monitor
from mcp_server_qdrant.http.serving import DRAIN_SECONDS
from mcp_server_qdrant.settings.environment import Settings, environment_names
from tests.support import make_settings

ROOT = Path(__file__).parent.parent
DASHBOARD = json.loads((ROOT / "deploy/grafana.json").read_text())
MANIFESTS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def exposed() -> dict[str, set[str]]:
    """Sample -> its labels, of a server on which everything happened once."""
    metrics = Monitor(make_settings()).metrics
    with metrics.call("qdrant-find"):
        pass
    metrics.record_statuses([Status("notes", "failed")])
    metrics.record_outcome("weak", corrected=True)
    text = metrics.text("up", "ready", {"stored": 1}).decode()
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def manifest(kind: str, name: str) -> dict:
    (found,) = [m for m in MANIFESTS if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_the_dashboard_asks_for_figures_and_labels_that_there_are(query):
    known = exposed()
    named = set(re.findall(r"\bmcp_qdrant_\w+", query))
    labels = re.findall(r"(\w+)\s*(?:=|!=|=~)\s*\"", query)
    labels += [one for by in re.findall(r"by \(([^)]*)\)", query) for one in by.split(", ")]

    assert named
    assert named <= known.keys()
    assert set(labels) <= set.union(*(known[name] for name in named))


def test_every_figure_is_on_the_dashboard():
    named = re.findall(r"mcp_qdrant_\w+", " ".join(QUERIES))
    asked = {re.sub("_(total|bucket)$", "", name) for name in named}
    there = {re.sub("_(total|bucket|count|sum)$", "", name) for name in exposed()}

    assert asked == there


def test_the_manifests_set_variables_that_there_are_and_probe_what_is_answered():
    pod = manifest("Deployment", "mcp-qdrant")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    known = {name for names in environment_names().values() for name in names}
    values = {one["name"]: one.get("value") for one in container["env"]}

    assert values.keys() <= known
    read = Settings.model_validate({name: value for name, value in values.items() if value})
    assert read.auth_mode == "token"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert pod["terminationGracePeriodSeconds"] > DRAIN_SECONDS
    assert pod["securityContext"]["runAsUser"] == 10001
    assert "--uid 10001" in (ROOT / "Dockerfile").read_text()
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_the_services_lead_to_the_pods():
    for kind, name in (("StatefulSet", "qdrant"), ("Deployment", "mcp-qdrant")):
        template = manifest(kind, name)["spec"]["template"]
        service = manifest("Service", name)["spec"]
        ports = [p["containerPort"] for c in template["spec"]["containers"] for p in c["ports"]]

        assert service["selector"] == template["metadata"]["labels"]
        assert [port["port"] for port in service["ports"]] == ports


def test_the_qdrant_of_the_manifests_fits_the_client():
    (container,) = manifest("StatefulSet", "qdrant")["spec"]["template"]["spec"]["containers"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    minor = re.search(r":v(\d+\.\d+)\.", container["image"])[1]

    assert any(one.startswith(f"qdrant-client>={minor}") for one in project["dependencies"])
