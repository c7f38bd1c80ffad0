"""The page in Firefox, asked over WebDriver BiDi: Playwright's own Firefox is another build."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_page import FIRST, QUERY

client = pytest.importorskip("websockets.sync.client", reason="pip install websockets")
PATH = shutil.which("firefox-esr") or shutil.which("firefox")
WAIT = 60  # seconds
UNTIL = """const $ = (name) => document.querySelector(name);
const until = async (look) => {
  while (!look()) await new Promise((done) => setTimeout(done, 20));
  return look();
};
"""


class Firefox:
    """A headless Firefox with a profile of its own; `errors` are those of its console."""

    def __init__(self, profile: Path) -> None:
        options = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0"]
        self.errors: list[str] = []
        self._process = subprocess.Popen([PATH, *options], stderr=subprocess.PIPE, text=True)
        said = (line.rpartition(" listening on ") for line in self._process.stderr)
        address = next(where.strip() for _, listening, where in said if listening)
        self._socket = client.connect(f"{address}/session", max_size=None)
        self._calls = 0
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        (self._tab,) = self.call("browsingContext.getTree")["contexts"]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": params}))
        while (told := json.loads(self._socket.recv(timeout=WAIT))).get("id") != self._calls:
            if told["params"].get("level") == "error":
                self.errors.append(told["params"]["text"])
        assert told["type"] == "success", told
        return told["result"]

    def open(self, url: str) -> None:
        self.call(
            "browsingContext.navigate", context=self._tab["context"], url=url, wait="interactive"
        )

    def run(self, script: str) -> Any:
        """What the body of an async function returns, as JSON has it."""
        target = {"context": self._tab["context"]}
        wrapped = f"(async () => {{ {UNTIL} {script} }})().then(JSON.stringify)"
        told = self.call("script.evaluate", expression=wrapped, target=target, awaitPromise=True)
        assert told["type"] == "success", told
        return json.loads(told["result"]["value"])

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(timeout=WAIT)
        self._process.stderr.close()


@pytest.fixture
def firefox(tmp_path) -> Iterator[Firefox]:
    if PATH is None:
        pytest.skip("no Firefox: apt-get install firefox-esr (as root)")
    opened = Firefox(tmp_path)
    yield opened
    opened.close()


def test_firefox_searches_draws_the_map_and_opens_a_text(firefox, served):
    firefox.open(f"{served.address}/viz")
    points = firefox.run("return (await until(() => $('canvas'))).dataset.points;")
    found = firefox.run(
        f"$('#query').value = {json.dumps(QUERY)}; $('#ask').requestSubmit();"
        "await until(() => $('.hit .bar') && Number($('canvas').dataset.hits));"
        "return [$('.hit h3').innerText, document.querySelectorAll('.hit').length,"
        " Number($('canvas').dataset.hits)];"
    )
    painted = firefox.run(
        "const { width, height } = $('canvas');"
        "const { data } = $('canvas').getContext('2d').getImageData(0, 0, width, height);"
        "return new Set(new Uint32Array(data.buffer)).size;"
    )
    text = firefox.run(
        "$('.hit .open').click(); return (await until(() => $('#passage .text'))).innerText;"
    )

    assert points == "111"
    assert found[0].startswith(FIRST)
    assert found[1] == found[2] > 0
    assert painted > 50
    assert "certificate" in text
    assert firefox.errors == []
