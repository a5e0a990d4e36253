"""The chart and the base of Kustomize, rendered by helm's and kustomize's own code: they fit the schemas."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.settings.loading import parse_settings
from tests.e2e.deploy.conftest import ROOT, Manifests, check_manifests

pytestmark = pytest.mark.deploy
CHART = ROOT / "deploy" / "helm" / "sluice"
BASE = ROOT / "deploy" / "kustomize" / "base"
EXAMPLE = ROOT / "deploy" / "kustomize" / "example"
EVERYTHING = {
    "replicas": 3,
    "image": {"repository": "registry.example/sluice", "digest": "sha256:" + "0" * 64},
    "config": {
        "listeners": {"thrift_http": {"host": "0.0.0.0", "port": 10001}},
        "sessions": {"drain_s": 90.5},
    },
    "tls": {"secret": "sluice-tls"},
    "policies": {"files": {"hr.yaml": (EXAMPLE / "policies" / "hr.yaml").read_text()}},
    "service": {"type": "LoadBalancer", "annotations": {"example/internal": "true"}},
    "spool": {"storageClass": "fast"},
    "autoscaling": {"enabled": True},
    "networkPolicy": {
        "clients": [{"namespaceSelector": {"matchLabels": {"team": "bi"}}}],
        "monitoring": [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}],
        "spark": {
            "enabled": True,
            "podSelector": {"spark-role": "driver"},
            "peers": {"spark-role": "executor"},
        },
    },
    "monitoring": {"serviceMonitor": True, "alerts": True, "dashboards": True, "labels": {"release": "prom"}},
    "podAnnotations": {"example/a": "b"},
    "podLabels": {"example/c": "d"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "imagePullSecrets": [{"name": "registry"}],
    "extraEnv": [{"name": "VAULT_TOKEN", "value": "x"}],
    "extraVolumes": [{"name": "keytab", "secret": {"secretName": "keytab"}}],
    "extraVolumeMounts": [{"name": "keytab", "mountPath": "/etc/sluice/keytab"}],
}
Render = Callable[..., Manifests]


def find(manifests: Manifests, kind: str, name: str | None = None) -> dict[str, Any]:
    (found,) = [one for one in manifests if one["kind"] == kind and name in (None, one["metadata"]["name"])]
    return found


@pytest.fixture
def whole(render: Render, tmp_path: Path) -> Manifests:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(EVERYTHING))
    return render("helm", CHART, "prod", values)


def test_the_chart_by_its_own_values_fits_the_schemas(render: Render) -> None:
    check_manifests(render("helm", CHART, "sluice"))


def test_the_chart_with_everything_fits_the_schemas(whole: Manifests) -> None:
    check_manifests(whole)
    kinds = {one["kind"] for one in whole}
    assert {"HorizontalPodAutoscaler", "PodDisruptionBudget", "PrometheusRule", "ServiceMonitor"} <= kinds
    assert "replicas" not in find(whole, "StatefulSet")["spec"]


def test_the_settings_of_the_chart_are_taken(render: Render, whole: Manifests, tmp_path: Path) -> None:
    for manifests, name in ((render("helm", CHART, "sluice"), "sluice"), (whole, "prod-sluice")):
        text = find(manifests, "ConfigMap", name)["data"]["gateway.yaml"]
        settings = parse_settings(text, "gateway.yaml", tmp_path)
        pod = find(manifests, "StatefulSet")["spec"]["template"]["spec"]
        check_pod(pod, settings.sessions.drain_s)
        ports = {one["containerPort"] for one in pod["containers"][0]["ports"]}
        listeners = settings.listeners
        given = (listeners.thrift, listeners.thrift_http, listeners.connect, listeners.admin)
        assert ports == {one.port for one in given if one is not None}
        with_tls = {one.tls is not None for one in given[:3] if one is not None}
        assert with_tls == {manifests is whole}


def check_pod(pod: dict[str, Any], drain_s: float) -> None:
    """What every pod of ours has to be."""
    (container,) = pod["containers"]
    stop_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= stop_s + drain_s + 10
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    (user,) = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert user == (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"]))
    assert pod["automountServiceAccountToken"] is False
    mounts = {one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"] for one in pod["volumes"]} | {"spool"}
    assert mounts <= volumes


def test_alerts_and_dashboards_of_the_chart_are_those_of_monitoring(whole: Manifests) -> None:
    monitoring = ROOT / "deploy" / "monitoring"
    assert find(whole, "PrometheusRule")["spec"] == yaml.safe_load((monitoring / "alerts.yaml").read_text())
    boards = find(whole, "ConfigMap", "prod-sluice-dashboards")["data"]
    assert {name: text.strip() for name, text in boards.items()} == {
        path.name: path.read_text().strip() for path in monitoring.glob("*.json")
    }


def test_the_policies_of_sparks_pods_let_gateways_in_and_nobody_else(whole: Manifests) -> None:
    policy = find(whole, "NetworkPolicy", "prod-sluice-spark")["spec"]
    labels = find(whole, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    gateways, peers = policy["ingress"]
    assert sorted(one["port"] for one in gateways["ports"]) == [10000, 15002]
    (allowed,) = gateways["from"]
    assert allowed["podSelector"]["matchLabels"].items() <= labels.items()
    assert peers["from"] == [{"podSelector": {"matchLabels": {"spark-role": "executor"}}}]


def test_wrong_values_are_refused(render: Render, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("replica: 2\n")
    with pytest.raises(AssertionError, match="replica"):
        render("helm", CHART, "sluice", values)


def test_the_base_is_what_the_chart_makes(render: Render) -> None:
    """`make charts` writes it."""
    made = render("helm", CHART, "sluice", BASE / "values.yaml")
    written = [one for one in yaml.safe_load_all((BASE / "sluice.yaml").read_text()) if one]
    assert written == made
    rendered = render("kustomize", BASE)
    check_manifests(rendered)
    assert {one["kind"] for one in rendered} == {one["kind"] for one in made}


def test_the_example_of_kustomize(render: Render, tmp_path: Path) -> None:
    manifests = render("kustomize", EXAMPLE)
    check_manifests(manifests)
    assert {one["metadata"]["namespace"] for one in manifests} == {"sluice"}
    text = find(manifests, "ConfigMap", "sluice")["data"]["gateway.yaml"]
    settings = parse_settings(text, "gateway.yaml", tmp_path)
    check_pod(find(manifests, "StatefulSet")["spec"]["template"]["spec"], settings.sessions.drain_s)
    definitions = load_service_defs(
        {one.name: one.read_text("utf-8") for one in (ROOT / "rules" / "service_defs").iterdir()}
    )
    packs = find(manifests, "ConfigMap", "sluice-policies")["data"]
    assert [one.name for one in load_packs(packs, definitions).policies()] == ["hr reads its tables"]
