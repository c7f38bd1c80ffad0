"""Frames a second of the page's map, and the picture at rest, in a headless Chromium without a GPU.

    python benchmarks/frames.py [--points 10000] [--runs 3]

The plot of the page over random points in clusters, 1,000 x 700 pixels at a ratio of 2. Each figure
is the median of the runs; the load of the machine is said beside them.
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

WEB = Path(__file__).parents[1] / "src/mcp_server_qdrant/http/page/viz"
SIZE = {"width": 1000, "height": 700}
# Moves until a second has passed; then the longest time to a picture at rest of ten.
SCRIPT = """async ([count]) => {
  document.body.innerHTML = '<div class="canvas"></div>';
  const { Plot } = await import('/plot.js');
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647 - 0.5;
  const middles = Array.from({ length: 40 }, () => [random(), random(), random()]);
  const xyz = Float32Array.from({ length: count * 3 },
    (_, n) => middles[Math.floor(n / 3) % 40][n % 3] + random() * random() * 0.4);
  const plot = new Plot(document.querySelector('.canvas'), {
    count, xyz, groupOf: new Uint16Array(count).map((_, n) => n % 8), regions: [], titles: [],
    groups: [...'abcdefgh'].map((collection) => ({ collection })), explained: [0.2, 0.1, 0.05],
    about: (n) => ({ id: String(n), collection: 'a' }),
  }, Array(8).fill('#3b82d0'), { hover() {} });
  plot.resize();
  const frames = (move) => new Promise((done) => {
    const start = performance.now();
    let drawn = 0;
    const next = () => {
      const passed = performance.now() - start;
      if (passed > 1000) return done((drawn * 1000) / passed);
      move(drawn++); // which paints with the next frame
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  const found = {};
  found.pan = await frames((n) => plot.shift(Math.cos(n / 9) * 8, Math.sin(n / 9) * 8));
  found.zoom = await frames((n) => plot.scaleBy(n % 40 < 20 ? 1.04 : 1 / 1.04));
  plot.arrange('3-D');
  found['3-D'] = await frames(() => plot.rotate(0.02, 0));
  found['3-D paint, ms'] = Number(plot.canvas.dataset.frame);
  plot.arrange('pca');
  plot.moving = false;
  plot.paint();
  found['rest, ms'] = Math.max(...Array.from({ length: 10 }, () => {
    plot.paint();
    return Number(plot.canvas.dataset.frame);
  }));
  return found;
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Files, without a log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def measured(points: int, runs: int) -> list[dict[str, float]]:
    """The figures of each run."""
    handler = functools.partial(Quiet, directory=WEB)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names = ("chromium-headless-shell", "chromium")
    path = next((found for name in names if (found := shutil.which(name))), None)
    found = []
    with sync_playwright() as running:
        browser = running.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        for _ in range(runs):
            page = browser.new_page(viewport=SIZE, device_scale_factor=2)
            page.goto(f"http://127.0.0.1:{server.server_port}/index.html", wait_until="commit")
            page.add_style_tag(content=".canvas, canvas { width: 1000px; height: 700px; }")
            found.append(page.evaluate(SCRIPT, [points]))
            page.close()
        browser.close()
    server.shutdown()
    return found


def main() -> None:
    """Print the medians as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    before = os.getloadavg()[0]
    runs = measured(args.points, args.runs)
    figures = {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}
    figures |= {"points": args.points, "load before": before, "load after": os.getloadavg()[0]}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
