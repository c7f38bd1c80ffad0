"""The examples in deploy/: each program takes its file, and what stands behind it is reached."""

import contextlib
import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.raw import serving
from tests.listening import free_port, make_tokens
from tests.support import HELLO

pytestmark = pytest.mark.model(False)

DEPLOY = Path(__file__).parents[2] / "deploy"
HOST = "mcp.example.com"
CLIENT = "127.0.0.2"  # the proxy itself comes from 127.0.0.1
ACCEPT = {"Accept": "application/json, text/event-stream", "X-Forwarded-For": "192.0.2.1"}


def installed(program: str) -> pytest.MarkDecorator:
    """Skip what needs a program that is not there."""
    there = shutil.which(program)
    return pytest.mark.skipif(there is None, reason=f"{program} is not installed")


def certificate(folder: Path) -> None:
    """A certificate of the example's name, where the example looks for it."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(1))
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(made.public_bytes(pem))
    (folder / "privkey.pem").write_bytes(key.private_bytes(pem, *form))


def replaced(text: str, changes: dict[str, str]) -> str:
    """The example with what a machine has of its own; each of these stands in it."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def checked(*command: str | Path) -> tuple[int, str]:
    """Status and complaints of a program."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def nginx(folder: Path, port: int, server: str) -> tuple[list[str], str]:
    """The command that serves the example, and its address."""
    certificate(folder)
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/letsencrypt/live/mcp.example.com": str(folder),
        "http://127.0.0.1:8000": server,
    }
    site = replaced((DEPLOY / "nginx.conf").read_text(), changes)
    kept = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    paths = "\n".join(f"{name}_temp_path {folder}/{name};" for name in kept)
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; error_log stderr; daemon off; master_process off;\n"
        f"events {{}}\nhttp {{ access_log off;\n{paths}\n{site} }}\n"
    )
    command = ["nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    return command, f"https://127.0.0.1:{port}"


def caddy(folder: Path, port: int, server: str) -> tuple[list[str], str]:
    """The same of Caddy, which would ask an authority for a certificate: here without TLS."""
    changes = {
        "\nmcp.example.com {": f"\n{{\n\tadmin off\n}}\nhttp://mcp.example.com:{port} {{",
        "127.0.0.1:8000": server.removeprefix("http://"),
    }
    file = folder / "Caddyfile"
    file.write_text(replaced((DEPLOY / "Caddyfile").read_text(), changes))
    command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
    return command, f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def running(command: list[str], address: str, folder: Path) -> Iterator[None]:
    """The program while it serves."""
    log = folder / "log"
    with log.open("wb") as said:
        env = os.environ | {"HOME": str(folder)}
        process = subprocess.Popen(command, stderr=said, stdout=said, cwd=folder, env=env)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{address}/healthz", headers={"Host": HOST}, verify=False)
                break
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture
def behind(env, tmp_path):
    """Settings of a server that a proxy stands in front of, and a token for it."""
    file = tmp_path / "tokens.yaml"
    token = make_tokens(file, ana="read")["ana"]
    tokens = {"AUTH_MODE": "token", "AUTH_TOKENS_FILE": str(file)}
    log = {"LOG_FORMAT": "json", "FASTMCP_LOG_LEVEL": "INFO"}
    return env | tokens | log | {"FASTMCP_ALLOWED_HOSTS": HOST}, token


@pytest.mark.parametrize(
    "proxy", [pytest.param(one, marks=installed(one.__name__)) for one in (nginx, caddy)]
)
async def test_a_client_behind_a_proxy_is_served_and_known_by_its_address(behind, tmp_path, proxy):
    settings, token = behind
    with serving(settings, "streamable-http", tmp_path) as (server, process):
        command, address = proxy(tmp_path, free_port(), server)
        with running(command, address, tmp_path):
            transport = httpx.AsyncHTTPTransport(verify=False, local_address=CLIENT)
            headers = {"Host": HOST, "Authorization": f"Bearer {token}", **ACCEPT}
            async with httpx.AsyncClient(
                base_url=address, transport=transport, headers=headers, timeout=30
            ) as http:
                hello = await http.post("/mcp", json=HELLO)
                session = {"Mcp-Session-Id": hello.headers["mcp-session-id"]}
                async with http.stream("GET", "/mcp", headers=session) as events:
                    opened = events.status_code  # before the first event
                stranger = await http.post("/mcp", json=HELLO, headers={"Authorization": ""})
                own = f"{address.partition(':')[0]}://{HOST}"
                page = await http.get("/viz", headers={"Origin": own})
                figures = await http.get("/metrics")
                large = await http.post("/mcp", content=bytes(4 * 1024 * 1024 + 1))
        process.terminate()
        log = [json.loads(line) for line in process.stderr.read().decode().splitlines()]

    assert (hello.status_code, opened, stranger.status_code) == (200, 200, 401)
    assert (figures.status_code, large.status_code) == (404, 413)
    assert page.status_code in (200, 307, 403)
    asked = {
        line["client"] for line in log if line["message"] == "Request" and "mcp" in line["path"]
    }
    assert asked == {CLIENT}


@installed("systemd-analyze")
def test_systemd_takes_the_service(tmp_path):
    unit = tmp_path / "mcp-server-qdrant.service"
    here = f"{Path(sys.executable).parent}/mcp-server-qdrant"
    changes = {"/opt/mcp-server-qdrant/bin/mcp-server-qdrant --t": f"{here} --t"}
    unit.write_text(replaced((DEPLOY / unit.name).read_text(), changes))

    assert checked("systemd-analyze", "verify", unit) == (0, "")


def test_the_server_starts_as_the_service_says(env, tmp_path):
    unit = RawConfigParser(strict=False, delimiters="=")
    unit.optionxform = str
    text = (DEPLOY / "mcp-server-qdrant.service").read_text()
    unit.read_string(text)
    pairs = [line.split("=", 2)[1:] for line in text.splitlines() if line[:12] == "Environment="]
    own = {"AUTH_TOKENS_FILE": str(tmp_path / "tokens.yaml"), "HOME": str(tmp_path)}
    make_tokens(tmp_path / "tokens.yaml", ana="read")
    _, option, transport = shlex.split(unit["Service"]["ExecStart"])

    with serving(env | dict(pairs) | own, transport, tmp_path) as (address, process):
        refused = httpx.post(f"{address}/mcp", headers={"Host": HOST})
        process.terminate()
        status = process.wait(30)

    assert (option, transport) == ("--transport", "streamable-http")
    assert (refused.status_code, status) == (401, 0)
    assert float(unit["Service"]["TimeoutStopSec"]) > 10


def test_prometheus_gets_the_figures_with_its_token(behind, tmp_path):
    settings, token = behind
    (job,) = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["scrape_configs"]
    kind = job["authorization"].get("type", "Bearer")  # as Prometheus has it by default
    path = job.get("metrics_path", "/metrics")
    with serving(settings, "streamable-http", tmp_path) as (address, _):
        host = job["static_configs"][0]["targets"][0]
        scraped = httpx.get(
            f"{address}{path}", headers={"Authorization": f"{kind} {token}", "Host": host}
        )

    assert job["authorization"]["credentials_file"]
    assert "mcp_qdrant_calls_under_way" in scraped.text


@installed("promtool")
def test_prometheus_takes_its_configuration(tmp_path):
    text = (DEPLOY / "prometheus.yml").read_text()
    (tmp_path / "token").write_text("mqd_x")
    file = tmp_path / "prometheus.yml"
    own = {"credentials_file: /etc/prometheus/mcp-": f"credentials_file: {tmp_path}/"}
    file.write_text(replaced(text, own))

    assert checked("promtool", "check", "config", file)[0] == 0
