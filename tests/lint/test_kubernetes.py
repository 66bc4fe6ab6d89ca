"""The manifests for Kubernetes agree with themselves and with the command line: options, ports, secrets, times."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from srb.cli import cluster, replica
from srb.cli.options import read_options
from srb.cluster.arguments import Arguments
from srb.cluster.doors import dns_name
from srb.cluster.replica_engine import PREFIX
from srb.config.settings import Settings
from tests.processes import ROOT

REPLICAS = ROOT / "config" / "kubernetes" / "replicas.yaml"
KUBERAY = ROOT / "config" / "ray" / "kubernetes.yaml"
COMMANDS: dict[str, Any] = {"replica": replica, "cluster": cluster}
VERSIONS = ("1.30", "1.37")
# The fields of a RayCluster, of KubeRay 1.5 and later: `ray.io/v1`, raycluster_types.go. Its pods are Kubernetes' own.
RAY_CLUSTER = {
    "authOptions", "autoscalerOptions", "enableInTreeAutoscaling", "gcsFaultToleranceOptions", "headGroupSpec",
    "headServiceAnnotations", "managedBy", "rayVersion", "suspend", "upgradeStrategy", "workerGroupSpecs",
}  # fmt: skip
RAY_FIELDS = {
    "authOptions": {"enableK8sTokenAuth", "mode", "secretName"},
    "gcsFaultToleranceOptions": {"externalStorageNamespace", "redisAddress", "redisPassword", "redisUsername"},
    "headGroupSpec": {"rayStartParams", "template"},
    "workerGroupSpecs": {"groupName", "maxReplicas", "minReplicas", "rayStartParams", "replicas", "template"},
}


def objects(path: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(path.read_text())}


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all containers anywhere in an object."""
    if isinstance(value, dict):
        yield from value.get("containers", ())
        for each in value.values():
            yield from containers(each)
    elif isinstance(value, list):
        for each in value:
            yield from containers(each)


def command(container: dict[str, Any]) -> list[str]:
    """Return the words of the container's `srb` command; none without one."""
    words: list[str] = [*container.get("command", ()), *container.get("args", ())]
    if words[:2] == ["sh", "-c"]:
        words = shlex.split(words[2])
    words = words[words.index("srb") :] if "srb" in words else []
    return words[: words.index("&&")] if "&&" in words else words


def settings_of(container: dict[str, Any]) -> tuple[argparse.Namespace, Settings]:
    """Return the options of the command's own, and the settings that its other options and its variables are."""
    _, name, *words = command(container)
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    if name in COMMANDS:
        COMMANDS[name].add_options(parser)
    asked, others = parser.parse_known_args(words)
    environ = {each["name"]: each.get("value", "given") for each in container.get("env", ())}
    return asked, Settings.load(read_options(others).values, environ)


CONTAINERS = [(path, each) for path in (REPLICAS, KUBERAY) for each in containers(list(objects(path).values()))]


@pytest.mark.parametrize(
    ("path", "container"), CONTAINERS, ids=lambda each: each.get("name", "") if isinstance(each, dict) else ""
)
def test_commands_have_options_that_exist_and_containers_say_what_they_need(
    path: Any, container: dict[str, Any]
) -> None:
    if command(container):
        settings_of(container)
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    rights = container["securityContext"]
    assert (rights["allowPrivilegeEscalation"], rights["capabilities"]) == (False, {"drop": ["ALL"]})
    if path is REPLICAS:  # Ray writes below /tmp, and more
        assert rights["readOnlyRootFilesystem"] is True


def pod(name: tuple[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of a StatefulSet or Deployment, and its only container."""
    spec = objects(REPLICAS)[name]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    return spec, container


def test_the_web_tier_asks_for_the_name_and_the_port_of_the_replicas_service() -> None:
    found = objects(REPLICAS)
    _, web = pod(("Deployment", "srb-web"))
    _, one = pod(("StatefulSet", "srb-replica"))
    asked, _ = settings_of(one)
    name, port = dns_name(settings_of(web)[1]) or ("", 0)
    service = found["Service", name]["spec"]
    assert service["clusterIP"] == "None"
    assert found["StatefulSet", "srb-replica"]["spec"]["serviceName"] == name
    assert asked.door == f"$(POD_IP):{port}"
    assert [port] == [each["port"] for each in service["ports"]] == [each["containerPort"] for each in one["ports"]]
    for policy, direction in (("srb-replica", "ingress"), ("srb-web", "egress")):
        assert found["NetworkPolicy", policy]["spec"][direction][0]["ports"] == [{"port": port}]


def templates(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all templates of pods anywhere in an object."""
    if isinstance(value, dict):
        yield from [value["template"]] if "template" in value else []
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from templates(each)


def selectors(value: Any) -> Iterator[dict[str, str]]:
    """Yield the labels that an object asks of pods in its own namespace."""
    if isinstance(value, dict):
        asked = value.get("selector") or ("namespaceSelector" not in value and value.get("podSelector"))
        if asked:
            yield asked.get("matchLabels", asked)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from selectors(each)


@pytest.mark.parametrize(("path", "least"), [(REPLICAS, 8), (KUBERAY, 6)])
def test_selectors_select_pods_that_there_are(path: Any, least: int) -> None:
    found = objects(path)
    labels = [each["metadata"]["labels"] for each in templates(list(found.values()))]
    asked = list(selectors(list(found.values())))
    assert len(asked) >= least
    for each in asked:
        assert any(each.items() <= own.items() for own in labels), each
    for template in templates(list(found.values())):
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        assert template["spec"]["automountServiceAccountToken"] is False
    guarded = [
        each["spec"]["podSelector"]["matchLabels"] for (kind, _), each in found.items() if kind == "NetworkPolicy"
    ]
    for own in labels:
        assert any(each.items() <= own.items() for each in guarded), f"who reaches {own} is not said"


@pytest.mark.parametrize("name", [("Deployment", "srb-web"), ("StatefulSet", "srb-replica")])
def test_the_secret_is_where_the_setting_says_and_what_is_written_has_a_volume(name: tuple[str, str]) -> None:
    spec, container = pod(name)
    _, settings = settings_of(container)
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert mounts.keys() == volumes.keys()
    [item] = volumes["door"]["secret"]["items"]
    assert settings.door_token_file == f"{mounts['door']}/{item['path']}"
    assert mounts["tmp"] == "/tmp"  # runtime folders; the root cannot be written
    if isinstance(stories := settings.stories_place, Path) and name[0] == "Deployment":
        assert str(stories.parent) == mounts["stories"]


def image() -> dict[str, str]:
    """Return the variables, and as USER the user, of the project's own image."""
    text = (ROOT / "config" / "container" / "Containerfile").read_text().replace("\\\n", " ")
    lines = dict(line.split(" ", 1) for line in text.splitlines() if line.startswith(("ENV ", "USER ")))
    return dict(each.split("=", 1) for each in lines["ENV"].split()) | {"USER": lines["USER"]}


def test_the_projects_image_has_the_command_and_the_user_of_the_pods() -> None:
    assert image()["PATH"].startswith("/opt/srb/bin:")
    for path in (REPLICAS, KUBERAY):
        for each in templates(list(objects(path).values())):
            user = each["spec"]["securityContext"]
            assert image()["USER"] == f"{user['runAsUser']}:{user['runAsGroup']}"
            assert all("registry.example/srb:" in one["image"] for one in each["spec"]["containers"])


@pytest.mark.parametrize("name", [("Deployment", "srb-web"), ("StatefulSet", "srb-replica")])
def test_folders_that_the_image_names_can_be_written(name: tuple[str, str]) -> None:
    _, container = pod(name)
    mounts = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    folders = [value for variable, value in image().items() if variable.endswith(("_DIR", "_HOME"))]
    assert len(folders) == 4
    for folder in folders:
        assert any(Path(folder).is_relative_to(each) for each in mounts), folder


def test_pods_have_the_time_that_their_requests_have() -> None:
    spec, one = pod(("StatefulSet", "srb-replica"))
    asked, settings = settings_of(one)
    assert spec["terminationGracePeriodSeconds"] > asked.drain_seconds + settings.state_seconds
    spec, web = pod(("Deployment", "srb-web"))
    waits = int(web["lifecycle"]["preStop"]["exec"]["command"][1])
    assert spec["terminationGracePeriodSeconds"] > waits + settings_of(web)[1].graceful_timeout


def test_a_pod_of_ray_ends_when_its_replica_has_let_its_requests_end() -> None:
    found = objects(KUBERAY)
    [group] = found["RayCluster", "srb"]["spec"]["workerGroupSpecs"]
    spec = group["template"]["spec"]
    [engine] = spec["containers"]
    script = engine["lifecycle"]["preStop"]["exec"]["command"][2]
    [deploy] = containers(found["Job", "srb-deploy"])
    asked, settings = settings_of(deploy)
    drain = Arguments().drain_seconds if asked.drain_seconds is None else asked.drain_seconds
    assert shlex.split(script)[shlex.split(script).index("--deadline-remaining-seconds") + 1] == f"{drain:.0f}"
    assert f"/tmp/{PREFIX}*" in script
    assert spec["terminationGracePeriodSeconds"] > drain + settings.state_seconds
    assert asked.replicas == group["replicas"]
    [web] = containers(found["Deployment", "srb-web"])
    waits = int(web["lifecycle"]["preStop"]["exec"]["command"][1])
    grace = found["Deployment", "srb-web"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > waits + settings_of(web)[1].graceful_timeout


def check_by_schemas(each: dict[str, Any], version: str) -> None:
    """Raise an error if an object has a field that Kubernetes or KubeRay do not know, or a value of another type."""
    if each["kind"] != "RayCluster":
        kubernetes_validate.validate(each, version, strict=True)
        return
    assert each["apiVersion"] == "ray.io/v1"
    spec = each["spec"]
    assert spec.keys() <= RAY_CLUSTER
    for name, fields in RAY_FIELDS.items():
        for part in spec[name] if isinstance(spec[name], list) else [spec[name]]:
            assert part.keys() <= fields
    assert spec["authOptions"]["mode"] in ("disabled", "token")
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pods = {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "of-ray"},
            "template": group["template"],
        }
        kubernetes_validate.validate(pods, version, strict=True)


OBJECTS = [each for path in (REPLICAS, KUBERAY) for each in objects(path).values()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("each", OBJECTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_each_object_is_one_of_the_published_schemas(each: dict[str, Any], version: str) -> None:
    check_by_schemas(each, version)


@pytest.mark.parametrize(
    ("kind", "way", "value"),
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "resurces"), {}),
        ("StatefulSet", ("spec", "replicas"), "two"),
        ("NetworkPolicy", ("spec", "ingres"), []),
        ("RayCluster", ("spec", "authOption"), {}),
        ("RayCluster", ("spec", "workerGroupSpecs", 0, "maxReplica"), 2),
        ("RayCluster", ("spec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        ("RayCluster", ("spec", "workerGroupSpecs", 0, "template", "spec", "volume"), []),
    ],
)
def test_a_mistake_anywhere_is_seen(kind: str, way: tuple[Any, ...], value: object) -> None:
    mistaken = deepcopy(next(each for each in OBJECTS if each["kind"] == kind))
    place: Any = mistaken
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = value
    with pytest.raises((kubernetes_validate.ValidationError, AssertionError)):
        check_by_schemas(mistaken, VERSIONS[-1])
