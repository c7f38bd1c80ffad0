// Moves the map and picks from it, by mouse, touch, wheel and keys.

const STIRRED = 5; // pixels of movement that turn a press into a drag
const WHEEL = 0.002;
const REACH = 14; // pixels around a point that count as pointing at it

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
  });

  canvas.addEventListener("pointermove", (event) => {
    const here = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) return point(plot, ...here);
    const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
    stirred += Math.abs(dx) + Math.abs(dy);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, here);
    if (other) {
      const wide = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
      plot.shift(dx / 2, dy / 2);
      plot.zoom(wide(here) / wide(before), [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2]);
    } else if (stirred > STIRRED) plot.camera.solid ? plot.rotate(dx * 0.01, dy * 0.01) : plot.shift(dx, dy);
  });

  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, ({ pointerId }) => fingers.delete(pointerId));
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
      // The wheel scrolls the page until the map was clicked.
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const step = event.deltaMode === 1 ? 25 : event.deltaMode ? 500 : event.ctrlKey ? 10 : 1;
      plot.zoom(2 ** (-event.deltaY * WHEEL * step), place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => press(plot, event));
}

function point(plot, x, y) {
  const found = find(plot, x, y);
  plot.canvas.style.setProperty("cursor", found ? "pointer" : "grab");
  if (!found) return plot.leave();
  plot.pointing = true;
  plot.on.hover(found, found.x, found.y);
}

/** What is at a position of the canvas: { hit }, { point } or { region }, with its x and y; else null. */
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

/** Highlights the next or the previous result. */
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
