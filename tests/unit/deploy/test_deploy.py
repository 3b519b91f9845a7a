"""The files of deploy/: linted as far as tools from the package registry go. None of them is run here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
import yaml

from ebbtide.config import OPTIONS
from ebbtide.records.metrics import TABLE

DEPLOY = Path(__file__).parents[3] / "deploy"
_LINT = "{extends: default, rules: {line-length: {max: 120}}}"


def _series() -> set[str]:
    """Every name under which Prometheus keeps something of ours."""
    found: set[str] = set()
    for one in TABLE:
        if one.kind == "counter":
            found.add(f"{one.name}_total")
        elif one.kind == "histogram":
            found |= {f"{one.name}_bucket", f"{one.name}_sum", f"{one.name}_count"}
        else:
            found.add(one.name)
    return found


def test_the_dashboard_asks_for_metrics_and_labels_that_exist() -> None:
    dashboard = msgspec.json.decode((DEPLOY / "grafana" / "ebbtide.json").read_bytes())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    series = _series()
    labels = {label for one in TABLE for label in one.labels} | {"le", "instance"}
    assert len(expressions) > 15
    for expression in expressions:
        asked = set(re.findall(r"ebbtide_\w+", expression))
        assert asked, expression
        assert asked <= series, expression
        assert expression.count("(") == expression.count(")"), expression
        grouped = [name.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for name in by.split(",")]
        matched = re.findall(r"(\w+)(?:=~|!=|=)\"", expression)
        assert set(grouped + matched) <= labels, expression


@pytest.mark.parametrize("name", ["compose.yaml", "prometheus.yml"])
def test_yaml_is_tidy(name: str) -> None:
    lint = [sys.executable, "-m", "yamllint", "--strict", "-d", _LINT, str(DEPLOY / name)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout


def test_compose_names_only_what_there_is() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services, variables = compose["services"], {option.variable for option in OPTIONS}
    assert {"database", "gateway-1", "gateway-2"} <= services.keys()
    for name, service in services.items():
        assert set(service.get("depends_on", [])) <= services.keys(), name
        for variable in service.get("environment", {}):
            assert variable in variables or not variable.startswith("EBBTIDE_"), variable
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or source == "./models.yaml" or (DEPLOY / source).is_file(), volume


def test_the_image_runs_as_nobody_special_and_is_looked_after() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    variables = {option.variable for option in OPTIONS}
    assert set(re.findall(r"EBBTIDE_\w+", text)) <= variables
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    for source in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        for path in source.split():
            assert (DEPLOY.parent / path).exists(), path


def test_the_image_gets_all_that_the_package_is_built_of() -> None:
    build = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert "custom" in wheel["hooks"]
    needed = {"pyproject.toml", build["project"]["readme"], "hatch_build.py", "console"}
    needed |= {package.split("/")[0] for package in wheel["packages"]}
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert needed <= {path for sources in copied for path in sources.split()}
    ignored = set((DEPLOY.parent / ".dockerignore").read_text().split())
    assert not needed & ignored
    assert "console/node_modules" in ignored  # another machine's


def test_the_proxy_passes_on_what_signing_in_looks_at() -> None:
    """`$host` would lose the port, and a browser's Origin has it: nobody could sign in to the console."""
    headers = dict(re.findall(r"proxy_set_header (\S+) ([^;]+);", (DEPLOY / "nginx.conf").read_text()))
    assert headers["Host"] == "$http_host"
    assert {"X-Forwarded-For", "X-Forwarded-Proto"} <= headers.keys()
    gateway = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["gateway-1"]
    assert "EBBTIDE_TRUSTED_PROXIES" in gateway["environment"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_one(tmp_path: Path) -> None:
    unit = (DEPLOY / "ebbtide.service").read_text().replace("/opt/ebbtide/bin/ebbtide", "/bin/true")
    (tmp_path / "ebbtide.service").write_text(unit)
    verify = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "ebbtide.service")]
    done = subprocess.run(verify, capture_output=True, text=True, check=False, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "ebbtide.service" in line]
    assert complaints == []
