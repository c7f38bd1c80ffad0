// From coordinates to pixels: layout, rotation in three dimensions, zoom.
//
// The two-dimensional view is the three-dimensional one from the front.

const WHOLE = { k: 1, x: 0, y: 0 };
const FRONT = { yaw: 0, pitch: 0, depth: 0 };
const ASLANT = { yaw: 0.6, pitch: 0.35, depth: 1 };
const [LEAST, MOST] = [0.6, 40]; // limits of the zoom
const PAD = 34; // pixels around the map
const [NEAREST, ROOM] = [3, 90]; // largest zoom on results, and pixels around them

export class Camera {
  constructor(panel) {
    this.panel = panel;
    this.transform = WHOLE;
    this.width = this.height = 1000; // until it is measured
    this.arrange("pca");
  }

  /** Changes the layout: "neighbours", if there is one, "pca", or "3-D", the same with depth. */
  arrange(layout) {
    const { panel } = this;
    this.layout = layout;
    this.solid = layout === "3-D";
    this.near = layout === "neighbours" && Boolean(panel.neighbours);
    this.xyz = this.near ? panel.neighbours : panel.xyz;
    this.turn = this.solid ? ASLANT : FRONT;
    [this.centre, this.half] = box(this.xyz, 3, panel.count);
  }

  /** The projection of coordinates to pixels, computed once per frame. */
  lens() {
    const { yaw, pitch, depth } = this.turn;
    const [hx, hy, hz] = this.half;
    const round = Math.hypot(hx, hy, hz);
    const wide = hx + (round - hx) * depth;
    const tall = hy + (round - hy) * depth;
    const fits = Math.min((this.width / 2 - PAD) / wide, (this.height / 2 - PAD) / tall);
    const scale = fits * (1 + 0.25 * depth); // points are rarely in the corners
    return { scale, sy: Math.sin(yaw), cy: Math.cos(yaw), sp: Math.sin(pitch), cp: Math.cos(pitch), depth, round };
  }

  /** The coordinates of a hit or a query. */
  spot({ at, neighbours }) {
    return this.near && neighbours ? neighbours : at;
  }

  /** Pixel x and y, and the depth from -1 (far) to 1 (near), of a position. */
  screen([px, py, pz = 0], { scale, sy, cy, sp, cp, depth, round } = this.lens()) {
    const x = px - this.centre[0];
    const y = py - this.centre[1];
    const z = (pz - this.centre[2]) * depth;
    const away = z * cy - x * sy;
    const { k, x: tx, y: ty } = this.transform;
    return [
      (this.width / 2 + (x * cy + z * sy) * scale) * k + tx,
      (this.height / 2 - (y * cp - away * sp) * scale) * k + ty,
      (away * cp + y * sp) / round,
    ];
  }

  /** Writes x, y (pixels) and `strength(n, near)` of every point into `place`, without allocating. */
  project(place, strength) {
    const { count } = this.panel;
    const { xyz, width, height, transform: { k, x: tx, y: ty }, centre: [mx, my, mz] } = this;
    const { scale, sy, cy, sp, cp, depth, round } = this.lens();
    const [left, top] = [(width / 2) * k + tx, (height / 2) * k + ty];
    for (let n = 0; n < count; n++) {
      const x = xyz[n * 3] - mx;
      const y = xyz[n * 3 + 1] - my;
      const z = (xyz[n * 3 + 2] - mz) * depth;
      const away = z * cy - x * sy;
      place[n * 3] = left + (x * cy + z * sy) * scale * k;
      place[n * 3 + 1] = top - (y * cp - away * sp) * scale * k;
      place[n * 3 + 2] = strength(n, 1 + ((away * cp + y * sp) / round) * 0.3 * depth);
    }
  }

  /** The transform that shows these marks; the whole map if they are far apart. */
  around(marks) {
    const now = this.transform;
    this.transform = WHOLE;
    const spots = marks.flatMap((one) => this.screen(this.spot(one)).slice(0, 2));
    this.transform = now;
    const [[left, right], [top, low]] = [0, 1].map((axis) => extent(spots, axis, 2, marks.length));
    const k = Math.min((this.width - 2 * ROOM) / (right - left || 1), (this.height - 2 * ROOM) / (low - top || 1), NEAREST);
    return k > 1.2 ? { k, x: (this.width - k * (left + right)) / 2, y: (this.height - k * (top + low)) / 2 } : WHOLE;
  }

  /** The transform zoomed by a factor around a fixed point. */
  zoomed(factor, [px, py]) {
    const { k, x, y } = this.transform;
    const next = Math.max(LEAST, Math.min(MOST, k * factor));
    const by = next / k;
    return { k: next, x: px - (px - x) * by, y: py - (py - y) * by };
  }

  /** The transform that shows everything; in 3-D with the initial rotation. */
  reset() {
    if (this.solid) this.turn = { ...ASLANT };
    return WHOLE;
  }

  /** Zoom, centre and rotation as text, independent of the size of the map; "" if everything is shown. */
  get view() {
    const { k, x, y } = this.transform;
    const part = (moved, whole) => ((whole / 2 - moved) / k / whole).toFixed(3);
    const seen = [k.toFixed(2), part(x, this.width), part(y, this.height)];
    const { yaw, pitch } = this.turn;
    if (this.solid && (yaw !== ASLANT.yaw || pitch !== ASLANT.pitch)) seen.push(yaw.toFixed(2), pitch.toFixed(2));
    return seen.join(" ") === "1.00 0.500 0.500" ? "" : seen.join(" ");
  }

  set view(text) {
    const [k, x, y, yaw, pitch] = text.split(" ").map(Number);
    if (!(k > 0)) return;
    this.transform = { k, x: this.width / 2 - x * k * this.width, y: this.height / 2 - y * k * this.height };
    if (this.solid && pitch !== undefined) this.turn = { yaw, pitch, depth: 1 };
  }
}

/** The middle of the values and half their extent, for each of `step` axes. */
function box(values, step, count) {
  const ends = Array.from({ length: step }, (_, axis) => extent(values, axis, step, count));
  return [ends.map(([low, high]) => (low + high) / 2), ends.map(([low, high]) => (high - low) / 2 || 0.001)];
}

/** The least and the greatest of every `step`-th value. */
function extent(values, first, step, count) {
  let [low, high] = count ? [Infinity, -Infinity] : [0, 0];
  for (let n = first; n < count * step; n += step) {
    low = Math.min(low, values[n]);
    high = Math.max(high, values[n]);
  }
  return [low, high];
}
