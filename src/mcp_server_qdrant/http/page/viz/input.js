// How a map is moved, pointed at and chosen from, with mouse, fingers, wheel and keys.

const STIRRED = 5; // pixels after which a press is a drag
const WHEEL = 0.002;
const REACH = 14; // pixels within which a point is pointed at
const [CORNERS, APART] = [60, 4]; // of a loop around points, at most; pixels between two

export function listen(plot) {
  const { canvas } = plot;
  const fingers = new Map();
  let stirred = 0;
  const place = ({ offsetX, offsetY }) => [offsetX, offsetY];

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    plot.leave();
    canvas.setPointerCapture(event.pointerId);
    if (!fingers.size) stirred = 0;
    fingers.set(event.pointerId, place(event));
    if (event.shiftKey && plot.on.enclose && !plot.camera.solid) plot.loop ??= [];
    plot.loop?.splice(0, Infinity, ...place(event));
  });

  canvas.addEventListener("pointermove", (event) => {
    const here = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) return point(plot, ...here);
    const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
    stirred += Math.abs(dx) + Math.abs(dy);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, here);
    if (plot.loop) lengthen(plot, here);
    else if (other) {
      const wide = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
      plot.shift(dx / 2, dy / 2);
      plot.zoom(wide(here) / wide(before), [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2]);
    } else if (stirred > STIRRED) plot.camera.solid ? plot.rotate(dx * 0.01, dy * 0.01) : plot.shift(dx, dy);
  });

  const lift = (event) => {
    fingers.delete(event.pointerId);
    if (plot.loop) closeLoop(plot);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => plot.leave());
  canvas.addEventListener("blur", () => plot.leave());
  canvas.addEventListener("click", (event) => {
    if (stirred > STIRRED) return;
    const found = find(plot, ...place(event));
    plot.leave();
    if (found) plot.on.pick(found);
  });

  canvas.addEventListener(
    "wheel",
    (event) => {
      // A wheel scrolls the page until the map has been chosen.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const step = event.deltaMode === 1 ? 25 : event.deltaMode ? 500 : event.ctrlKey ? 10 : 1;
      plot.zoom(2 ** (-event.deltaY * WHEEL * step), place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => press(plot, event));
}

function lengthen(plot, [x, y]) {
  const { loop } = plot;
  if (Math.hypot(x - loop.at(-2), y - loop.at(-1)) >= APART) loop.push(x, y);
  plot.draw();
}

/** The loop is drawn: what it encloses is told, of so many corners that a link has room for them. */
function closeLoop(plot) {
  const { loop } = plot;
  const step = Math.ceil(loop.length / 2 / CORNERS);
  const corners = loop.filter((_, n) => Math.floor(n / 2) % step === 0);
  plot.loop = null;
  plot.draw();
  plot.on.enclose(corners.length < 6 ? null : plot.camera.written(corners));
}

function point(plot, x, y) {
  const found = find(plot, x, y);
  plot.canvas.style.setProperty("cursor", found ? "pointer" : "grab");
  if (!found) return plot.leave();
  plot.pointing = true;
  plot.on.hover(found, found.x, found.y);
}

/** What lies at a place of the canvas: { hit }, { point } or { region }, with its place; else null. */
export function find(plot, x, y) {
  const { hits, labels, place, panel } = plot;
  let best = null;
  let least = REACH * REACH;
  for (const hit of hits) {
    const far = hit.pin ? (hit.pin[0] - x) ** 2 + (hit.pin[1] - y) ** 2 : Infinity;
    if (far < least && !plot.hidden.has(hit.collection)) [best, least] = [{ hit, x: hit.pin[0], y: hit.pin[1] }, far];
  }
  if (best) return best;
  for (const { region, box } of labels) {
    if (x < box[0] || x > box[2] || y < box[1] || y > box[3]) continue;
    return region.words ? { region, x, y } : { point: region.point, x, y };
  }
  least /= 3;
  for (let n = 0; n < panel.count; n++) {
    const far = (place[n * 3] - x) ** 2 + (place[n * 3 + 1] - y) ** 2;
    if (far < least && place[n * 3 + 2]) [best, least] = [{ point: n, x: place[n * 3], y: place[n * 3 + 1] }, far];
  }
  return best;
}

function press(plot, event) {
  const { key, shiftKey } = event;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
  const [dx, dy] = key === "ArrowLeft" || key === "ArrowRight" ? [step, 0] : [0, step];
  const scale = { "+": 1.25, "=": 1.25, "-": 0.8 }[key];
  if (step && shiftKey && plot.camera.solid) plot.rotate(dx * 0.12, dy * 0.12);
  else if (step) stepTo(plot, step);
  else if (key === "Enter" && plot.active) plot.on.pick({ hit: plot.active });
  else if (scale) plot.scaleBy(scale);
  else if (key === "0") plot.reset();
  else if (key === "Escape" && !plot.opened && !plot.marked.length) plot.highlight(null), plot.reset();
  else return;
  event.preventDefault();
}

/** To the next result, or the one before. */
function stepTo(plot, step) {
  const { hits } = plot;
  if (!hits.length) return;
  const now = hits.indexOf(plot.active);
  const next = now < 0 ? (step > 0 ? 0 : hits.length - 1) : now + step;
  plot.active = hits[(next + hits.length) % hits.length];
  plot.paint();
  plot.pointing = true;
  plot.on.hover({ hit: plot.active }, ...plot.active.own);
  plot.on.step(plot.active);
}
