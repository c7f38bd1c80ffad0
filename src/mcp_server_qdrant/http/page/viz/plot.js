// One panel of the map: a scatter plot on a canvas, in two or three dimensions.
//
// Both are the same picture: two dimensions are the three seen from the front. Points are stamped
// from a sprite per colour, so that 10,000 of them are one short frame.

import "./vendor/d3.min.js";

const { d3 } = globalThis;
const REST_OPACITY = 0.4;
const PAD = 34;
const MANY = 4000; // points that are drawn small, and all of one size
const REACH = 14; // pixels within which a point is pointed at
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class Plot {
  /** `on` is told of: hover(point or null, x, y), pick(point), step(text). */
  constructor(holder, panel, colours, on) {
    this.panel = panel;
    this.colours = colours;
    this.on = on;
    this.hits = []; // { rank, at, collection, id, title, snippet }
    this.query = null;
    this.hidden = new Set();
    this.active = null;
    this.turn = { yaw: 0, pitch: 0, depth: 0 };
    this.dimensions = 2;
    this.transform = d3.zoomIdentity;
    this.canvas = holder.appendChild(document.createElement("canvas"));
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "scatter plot");
    this.context = this.canvas.getContext("2d");
    this.place = new Float32Array(panel.count * 3);
    this.fit();
    this.listen();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(holder);
    this.restyle();
  }

  destroy() {
    this.watcher.disconnect();
    this.timer?.stop();
    this.canvas.remove();
  }

  /** Centre and radius of what is drawn, so that every turn of it fits. */
  fit() {
    const { xyz, count } = this.panel;
    const axes = [0, 1, 2].map((axis) => {
      const values = d3.range(count).map((n) => xyz[n * 3 + axis]);
      return d3.extent(values);
    });
    this.centre = axes.map(([low, high]) => ((low ?? 0) + (high ?? 0)) / 2);
    this.half = axes.map(([low, high]) => ((high ?? 0) - (low ?? 0)) / 2 || 0.001);
  }

  /** The search's hits and query in this panel; what is not a hit is dimmed. */
  show(hits, query) {
    this.hits = hits;
    this.query = query;
    this.active = null;
    this.describe();
    this.draw();
  }

  hide(collections) {
    this.hidden = collections;
    this.draw();
  }

  highlight(hit) {
    this.active = hit;
    this.draw();
  }

  restyle() {
    const style = getComputedStyle(document.documentElement);
    this.ink = style.getPropertyValue("--ink").trim();
    this.paper = style.getPropertyValue("--surface").trim();
    this.line = style.getPropertyValue("--line").trim();
    this.muted = style.getPropertyValue("--muted").trim();
    this.accent = style.getPropertyValue("--accent").trim();
    this.font = style.getPropertyValue("--font").trim();
    this.sprites = null;
    this.draw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    this.ratio = ratio;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.sprites = null;
    this.draw();
  }

  describe() {
    const { panel, hits } = this;
    const share = Math.round(d3.sum(panel.explained.slice(0, this.dimensions)) * 100);
    this.canvas.dataset.points = panel.count;
    this.canvas.dataset.hits = hits.length;
    this.canvas.dataset.restOpacity = hits.length ? REST_OPACITY : 0.85;
    this.canvas.dataset.dimensions = this.dimensions;
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${panel.count.toLocaleString("en")} points in ${panel.groups.length} ` +
        `collections, ${this.dimensions}-D, ${share} % of the variance. ` +
        (hits.length ? `${hits.length} results marked. ` : "") +
        "Arrow keys go through the results, Enter opens one, plus and minus zoom, 0 resets." +
        (this.dimensions === 3 ? " Shift with arrow keys turns it." : ""),
    );
  }

  /** Two or three dimensions, one turning into the other. */
  flatten(dimensions) {
    if (dimensions === this.dimensions) return;
    this.dimensions = dimensions;
    this.describe();
    const from = { ...this.turn };
    const to = dimensions === 3 ? { yaw: 0.6, pitch: 0.35, depth: 1 } : { yaw: 0, pitch: 0, depth: 0 };
    const between = d3.interpolateObject(from, to);
    this.timer?.stop();
    const length = STILL.matches ? 0 : 500;
    this.timer = d3.timer((elapsed) => {
      const share = length ? Math.min(elapsed / length, 1) : 1;
      this.turn = { ...between(d3.easeCubicInOut(share)) };
      this.draw();
      if (share === 1) this.timer.stop();
    });
  }

  listen() {
    const canvas = d3.select(this.canvas);
    this.zoom = d3
      .zoom()
      .scaleExtent([0.6, 40])
      .filter((event) => {
        // A wheel scrolls the page until the map has been chosen; one finger scrolls it always.
        if (event.type === "wheel")
          return event.ctrlKey || event.metaKey || document.activeElement === this.canvas;
        if (event.touches) return event.touches.length > 1;
        return this.dimensions === 2 && !event.button;
      })
      .on("zoom", ({ transform }) => {
        this.transform = transform;
        this.on.hover(null);
        this.draw();
      });
    canvas.call(this.zoom).on("dblclick.zoom", null);
    canvas.call(
      d3
        .drag()
        .filter((event) => this.dimensions === 3 && !event.button && !event.touches)
        .on("drag", ({ dx, dy }) => this.rotate(dx * 0.01, dy * 0.01)),
    );
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.on.hover(null));
    this.canvas.addEventListener("click", (event) => {
      const found = this.at(event.offsetX, event.offsetY);
      if (found) this.on.pick(found);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.on.hover(null));
  }

  point(event) {
    if (event.buttons) return;
    const found = this.at(event.offsetX, event.offsetY);
    this.canvas.style.setProperty("cursor", found ? "pointer" : "grab");
    this.on.hover(found, found?.x, found?.y);
  }

  rotate(yaw, pitch) {
    this.timer?.stop();
    this.turn.yaw += yaw;
    this.turn.pitch = Math.max(-1.5, Math.min(1.5, this.turn.pitch + pitch));
    this.on.hover(null);
    this.draw();
  }

  scaleBy(factor) {
    d3.select(this.canvas).call(this.zoom.scaleBy, factor);
  }

  reset() {
    if (this.dimensions === 3) this.turn = { yaw: 0.6, pitch: 0.35, depth: 1 };
    d3.select(this.canvas).call(this.zoom.transform, d3.zoomIdentity);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step && event.shiftKey && this.dimensions === 3) {
      const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
      this.rotate(sideways ? step * 0.12 : 0, sideways ? 0 : step * 0.12);
    } else if (step) this.stepTo(step);
    else if (event.key === "Enter" && this.active) this.on.pick({ hit: this.active });
    else if (event.key === "+" || event.key === "=") this.scaleBy(1.3);
    else if (event.key === "-") this.scaleBy(1 / 1.3);
    else if (event.key === "0") this.reset();
    else if (event.key === "Escape") this.highlight(null), this.on.hover(null);
    else return;
    event.preventDefault();
  }

  stepTo(step) {
    if (!this.hits.length) return;
    const now = this.hits.indexOf(this.active);
    const next = now < 0 ? (step > 0 ? 0 : this.hits.length - 1) : now + step;
    this.active = this.hits[(next + this.hits.length) % this.hits.length];
    this.paint();
    const [x, y] = this.screen(this.active.at);
    this.on.hover({ hit: this.active }, x, y);
    this.on.step(this.active);
  }

  /** What lies at a place of the canvas: { hit } or { point }, with its place; else null. */
  at(x, y) {
    let best = null;
    let least = REACH * REACH;
    for (const hit of this.hits) {
      const [hx, hy] = this.screen(hit.at);
      const far = (hx - x) ** 2 + (hy - y) ** 2;
      if (far < least) [best, least] = [{ hit, x: hx, y: hy }, far];
    }
    if (best) return best;
    least /= 3;
    const { place, panel } = this;
    for (let n = 0; n < panel.count; n++) {
      const far = (place[n * 3] - x) ** 2 + (place[n * 3 + 1] - y) ** 2;
      if (far < least && !this.hidden.has(panel.collectionOf(n))) {
        [best, least] = [{ point: n, x: place[n * 3], y: place[n * 3 + 1] }, far];
      }
    }
    return best;
  }

  /** The numbers that turn coordinates into pixels, for this frame. */
  camera() {
    const { yaw, pitch, depth } = this.turn;
    const [hx, hy, hz] = this.half;
    const round = Math.hypot(hx, hy, hz);
    const wide = hx + (round - hx) * depth;
    const tall = hy + (round - hy) * depth;
    const fits = Math.min((this.width / 2 - PAD) / wide, (this.height / 2 - PAD) / tall);
    const scale = fits * (1 + 0.25 * depth); // corners of the box are seldom taken
    const [sy, cy, sp, cp] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
    return { scale, sy, cy, sp, cp, depth, round };
  }

  /** Pixel x and y, and the depth from -1 (far) to 1 (near), of a position. */
  screen([px, py, pz = 0], camera = this.camera()) {
    const { scale, sy, cy, sp, cp, depth, round } = camera;
    const x = px - this.centre[0];
    const y = py - this.centre[1];
    const z = (pz - this.centre[2]) * depth;
    const across = x * cy + z * sy;
    const away = z * cy - x * sy;
    const up = y * cp - away * sp;
    const near = (away * cp + y * sp) / round;
    const { k, x: tx, y: ty } = this.transform;
    return [
      (this.width / 2 + across * scale) * k + tx,
      (this.height / 2 - up * scale) * k + ty,
      near,
    ];
  }

  /** Draws with the next frame, once however often it was asked for. */
  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      this.paint();
    });
  }

  paint() {
    if (!this.width) return;
    const start = performance.now();
    const { context, ratio } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const camera = this.camera();
    this.paintAxes(camera);
    this.paintRest(camera);
    this.paintHits(camera);
    this.canvas.dataset.frame = (performance.now() - start).toFixed(1);
  }

  paintAxes(camera) {
    const { context } = this;
    const names = ["PC 1", "PC 2", "PC 3"].slice(0, this.turn.depth > 0 ? 3 : 2);
    context.strokeStyle = this.line;
    context.fillStyle = this.muted;
    context.font = `11px ${this.font}`;
    context.lineWidth = 1;
    names.forEach((name, axis) => {
      const ends = [-1, 1].map((side) => {
        const end = [...this.centre];
        end[axis] += side * this.half[axis] * 1.04;
        return this.screen(end, camera);
      });
      context.globalAlpha = axis === 2 ? this.turn.depth : 1;
      context.beginPath();
      context.moveTo(ends[0][0], ends[0][1]);
      context.lineTo(ends[1][0], ends[1][1]);
      context.stroke();
      const share = this.panel.explained[axis] ?? 0;
      context.textAlign = ends[1][0] > this.width - 80 ? "right" : "left";
      const label = `${name} · ${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
      context.fillText(label, Math.min(ends[1][0] + 4, this.width - 6), Math.max(ends[1][1] - 6, 12));
    });
    context.globalAlpha = 1;
  }

  /** The loop over all points: no call, no allocation, and sprites at whole pixels. */
  paintRest(camera) {
    const { context, panel, place, ratio, width, height } = this;
    const { xyz, groupOf, count } = panel;
    const { scale, sy, cy, sp, cp, depth, round } = camera;
    const { k, x: tx, y: ty } = this.transform;
    const [mx, my, mz] = this.centre;
    const [left, top] = [(width / 2) * k + tx, (height / 2) * k + ty];
    this.sprites ??= this.colours.map((colour) => stamp(colour, this.radius() * ratio));
    const shown = panel.groups.map((group) => !this.hidden.has(group.collection));
    const flat = depth === 0 || count > MANY;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.globalAlpha = this.hits.length ? REST_OPACITY : 0.85;
    for (let n = 0; n < count; n++) {
      const x = xyz[n * 3] - mx;
      const y = xyz[n * 3 + 1] - my;
      const z = (xyz[n * 3 + 2] - mz) * depth;
      const away = z * cy - x * sy;
      const px = left + (x * cy + z * sy) * scale * k;
      const py = top - (y * cp - away * sp) * scale * k;
      place[n * 3] = px;
      place[n * 3 + 1] = py;
      if (!shown[groupOf[n]] || px < -9 || py < -9 || px > width + 9 || py > height + 9) continue;
      const sprite = this.sprites[groupOf[n]];
      if (flat) {
        const half = sprite.width >> 1;
        context.drawImage(sprite, Math.round(px * ratio) - half, Math.round(py * ratio) - half);
      } else {
        // With depth, what is nearer is larger.
        const size = sprite.width * (1 + ((away * cp + y * sp) / round) * 0.35 * depth);
        context.drawImage(sprite, px * ratio - size / 2, py * ratio - size / 2, size, size);
      }
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
  }

  radius() {
    const { count } = this.panel;
    return count > MANY ? 2 : count > 800 ? 3 : 4.5;
  }

  paintHits(camera) {
    const { context } = this;
    const query = this.query ? this.screen(this.query.at, camera) : null;
    const shown = this.hits.filter((hit) => !this.hidden.has(hit.collection));
    if (query && this.active) {
      const [x, y] = this.screen(this.active.at, camera);
      line(context, query, [x, y], this.accent);
    }
    if (query) this.paintStar(query);
    for (const hit of shown.toReversed()) {
      const [x, y] = this.screen(hit.at, camera);
      const active = hit === this.active;
      const radius = active ? 12 : 9;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fillStyle = hit.colour;
      context.fill();
      context.lineWidth = active ? 3 : 1.5;
      context.strokeStyle = active ? this.accent : this.ink;
      context.stroke();
      context.fillStyle = contrasting(hit.colour);
      context.font = `600 10px ${this.font}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(hit.rank, x, y + 0.5);
      context.textBaseline = "alphabetic";
    }
    if (query) this.paintLabel(query);
  }

  paintStar([x, y]) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    context.beginPath();
    for (let corner = 0; corner < 10; corner++) {
      const radius = corner % 2 ? 5 : 11;
      const angle = (corner * Math.PI) / 5 - Math.PI / 2;
      context.lineTo(radius * Math.cos(angle), radius * Math.sin(angle));
    }
    context.closePath();
    context.fillStyle = this.accent;
    context.strokeStyle = this.paper;
    context.lineWidth = 3;
    context.stroke();
    context.fill();
    context.restore();
  }

  /** Above everything, below its star. */
  paintLabel([x, y]) {
    const { context } = this;
    context.font = `600 12px ${this.font}`;
    context.textAlign = "center";
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeStyle = this.paper;
    context.fillStyle = this.accent;
    const across = Math.max(36, Math.min(this.width - 36, x));
    context.strokeText("your query", across, y + 25);
    context.fillText("your query", across, y + 25);
  }
}

function line(context, from, to, colour) {
  context.save();
  context.setLineDash([4, 4]);
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
  context.restore();
}

/** A round point of one colour, drawn once; the radius in pixels of the screen. */
function stamp(colour, radius) {
  const size = Math.ceil(radius * 2) + 2;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  context.fillStyle = colour;
  context.beginPath();
  context.arc(size / 2, size / 2, radius, 0, 2 * Math.PI);
  context.fill();
  return canvas;
}

/** Black or white, whichever reads better on a colour. */
function contrasting(colour) {
  const { r, g, b } = d3.rgb(colour);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140 ? "#111" : "#fff";
}

/** A colour for each collection, by its place among all of them. */
export function palette(count) {
  const base = ["#5b82e6", ...d3.schemeObservable10.slice(1)]; // a blue that is seen on black too
  if (count <= base.length) return base.slice(0, Math.max(count, 1));
  return d3.range(count).map((n) => d3.interpolateRainbow((n * 0.618034) % 1));
}
