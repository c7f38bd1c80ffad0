// How a map is moved with mouse, fingers and wheel.

const [LEAST, MOST] = [0.6, 40]; // of the zoom
const STIRRED = 5; // pixels after which a press is a drag
const WHEEL = 0.002;

/** A transform zoomed by a factor, around a place that stays. */
export function zoomed({ k, x, y }, factor, [px, py]) {
  const next = Math.max(LEAST, Math.min(MOST, k * factor));
  const by = next / k;
  return { k: next, x: px - (px - x) * by, y: py - (py - y) * by };
}

/**
 * Tells `on` of: hover(place), leave(), click(place), drag(dx, dy), zoom(factor, place), and
 * of a line drawn around points, stretch(line) and lasso(line), where on.lassoes(event).
 */
export function gestures(canvas, on) {
  const fingers = new Map();
  let stirred = 0;
  let line = null;
  const place = ({ offsetX, offsetY }) => [offsetX, offsetY];

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    if (!fingers.size) stirred = 0;
    fingers.set(event.pointerId, place(event));
    line = fingers.size === 1 && on.lassoes(event) ? [place(event)] : null;
  });

  canvas.addEventListener("pointermove", (event) => {
    const here = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) return on.hover(here);
    const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
    stirred += Math.abs(dx) + Math.abs(dy);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    fingers.set(event.pointerId, here);
    if (line) {
      line.push(here);
      on.stretch(line);
    } else if (other) {
      const wide = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
      on.shift(dx / 2, dy / 2);
      on.zoom(wide(here) / wide(before), [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2]);
    } else if (stirred > STIRRED) on.drag(dx, dy);
  });

  const lift = (event) => {
    if (!fingers.delete(event.pointerId) || !line) return;
    on.lasso(event.type === "pointerup" && stirred > STIRRED ? line : null);
    line = null;
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => on.leave());
  canvas.addEventListener("click", (event) => stirred <= STIRRED && on.click(place(event)));

  canvas.addEventListener(
    "wheel",
    (event) => {
      // A wheel scrolls the page until the map has been chosen.
      const chosen = event.ctrlKey || event.metaKey || document.activeElement === canvas;
      if (!chosen) return;
      event.preventDefault();
      const step = event.deltaMode === 1 ? 25 : event.deltaMode ? 500 : event.ctrlKey ? 10 : 1;
      on.zoom(2 ** (-event.deltaY * WHEEL * step), place(event));
    },
    { passive: false },
  );
}

/** Whether a place lies inside a closed line. */
export function encloses(line, x, y) {
  let inside = false;
  for (let n = 0, last = line.length - 1; n < line.length; last = n++) {
    const [[ax, ay], [bx, by]] = [line[n], line[last]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}
