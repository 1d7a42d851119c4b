"""deploy/compose.yaml is what Docker Compose takes, opens nothing to the network, and mounts what is there."""

import re
import subprocess
import sys

import pytest
import yaml

from tests.paths import ROOT

FOLDER = ROOT / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]


def validate(file):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True)


def test_it_is_valid_by_the_schema_of_the_compose_specification():
    done = validate(FOLDER / "compose.yaml")

    assert done.returncode == 0, done.stdout


def test_the_schema_would_find_a_mistake(tmp_path):
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((FOLDER / "compose.yaml").read_text().replace("healthcheck:", "healthchek:"))

    assert validate(wrong).returncode != 0


def test_it_holds_the_whole_system():
    assert set(SERVICES) == {"kafka", "topics", "gapwatch", "prometheus", "alertmanager", "grafana"}


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_to_a_version(name):
    assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


def test_the_image_of_gapwatch_begins_with_a_pinned_one_and_has_the_projects_version():
    import tomllib

    dockerfile = (FOLDER / "compose" / "Dockerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert re.search(r"^FROM python:3\.11\.\d+-slim-bookworm$", dockerfile, re.MULTILINE)
    assert SERVICES["gapwatch"]["image"] == f"gapwatch:{project['version']}"


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_on_this_machine_alone(name):
    for port in SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_mounted_is_there(name):
    for volume in SERVICES[name].get("volumes", []):
        source = re.sub(r"^\$\{\w+:-(.*?)\}", r"\1", volume).split(":")[0]
        if source.startswith("."):
            assert (FOLDER / source).exists(), volume
        else:
            assert source in COMPOSE["volumes"]


def test_what_the_image_copies_is_there():
    for line in (FOLDER / "compose" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), line


def test_prometheus_scrapes_gapwatch_in_its_own_namespace():
    prometheus = yaml.safe_load((FOLDER / "compose" / "prometheus.yml").read_text())

    (job,) = prometheus["scrape_configs"]
    assert SERVICES["gapwatch"]["network_mode"] == "service:prometheus"
    assert job["static_configs"][0]["targets"][0].startswith("127.0.0.1:")
    assert prometheus["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] == ["alertmanager:9093"]


def test_no_secret_is_written_into_it():
    text = (FOLDER / "compose.yaml").read_text()
    assert "${GAPWATCH_GRAFANA_PASSWORD:?" in text
