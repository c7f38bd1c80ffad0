// One panel of the map: a scatter plot on a canvas, in two or three dimensions.
//
// Both are the same picture: two dimensions are the three seen from the front. While it moves it is
// drawn in fewer pixels; at rest in all of them, with crowded places shaded.

import { encloses, gestures, zoomed } from "./gestures.js";
import { clip, gone, key, there } from "./dom.js";
import { channels, hex, hue, Raster } from "./raster.js";
import { placed } from "./regions.js";

const WHOLE = { k: 1, x: 0, y: 0 };
const ASLANT = { yaw: 0.6, pitch: 0.35, depth: 1 };
const REST_OPACITY = 0.4;
const PAD = 34;
const PIN = 19; // pixels between the middles of two pins
const NUMBERED = 5; // results whose pins have a number; the others are dots
const [NEAREST, ROOM] = [3, 90]; // of the zoom on results, and pixels around them
const [NAMED, FEW, TITLE] = [1.5, 120, 30]; // the zoom and the points in sight that are named one by one; characters
const PALE = 0.35; // of the strength of a point that has none of the colours
const MANY = 4000; // points that are drawn small
const CLOUD = 20000; // points above which they are dust, and drawn at a time while it moves
const CROWD = 500; // points from which on crowded places are shaded
const [CORNERS, STRIDE] = [40, 18]; // of a circle around points, in corners and in pixels for a key
const REACH = 14; // pixels within which a point is pointed at
const REST = 140; // ms without a move after which it is drawn in full
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class Plot {
  /**
   * `on` is told of: hover(point or null, x, y), step(hit), and
   * pick(found), which is a { hit }, a { point }, a { region } or the { points } of a lasso.
   */
  constructor(holder, panel, colours, on) {
    this.panel = panel;
    this.raster = new Raster();
    this.paintBy(panel.groupOf, colours);
    this.mix = 0; // 0: principal components, 1: the layout by neighbours
    this.focus = null; // a region whose name stands out
    this.lit = null; // a byte for each point, not 0 where it stands out
    this.marked = []; // the points of the text that is open
    this.moves = new Map(); // what glides: the property, and how
    this.lassoing = false; // the next drag draws a line around points
    this.loop = null; // the line that is being drawn
    this.labels = [];
    this.widths = {}; // of names
    this.on = on;
    this.hits = []; // { rank, at, collection, id, title, snippet }
    this.query = null;
    this.hidden = new Set();
    this.active = null;
    this.turn = { yaw: 0, pitch: 0, depth: 0 };
    this.layout = "pca";
    this.transform = WHOLE;
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
    cancelAnimationFrame(this.timer);
    clearTimeout(this.rests);
    this.canvas.remove();
  }

  /** Centre and radius of what is drawn, so that every turn of it fits. */
  fit() {
    const { xyz, count } = this.panel;
    const ends = [0, 1, 2].map((axis) => extent(xyz, axis, 3, count));
    this.centre = ends.map(([low, high]) => (low + high) / 2);
    this.half = ends.map(([low, high]) => (high - low) / 2 || 0.001);
    this.lay();
  }

  /** Takes over the layout by neighbours, once it is there: centred, and of the same size. */
  lay() {
    const { second } = this.panel;
    if (!second) return;
    const ends = [0, 1].map((axis) => extent(second, axis, 2, this.panel.count));
    this.from = ends.map(([low, high]) => (low + high) / 2);
    const halves = ends.map(([low, high]) => (high - low) / 2 || 1);
    this.stretch = Math.max(...this.half.slice(0, 2)) / Math.max(...halves);
    this.halfBeside = halves.map((half) => half * this.stretch);
    this.beside = second.map((value, n) => (value - this.from[n % 2]) * this.stretch);
  }

  /** Which of the colours each point has; beyond them they are pale. */
  paintBy(codes, colours) {
    this.codes = codes;
    this.colours = colours.map(hex);
    this.draw?.();
  }

  /** Moves over to a layout: "neighbours", where it is there, "pca", or "3-D", the same with depth. */
  arrange(layout) {
    this.layout = layout;
    this.describe();
    const [from, mix] = [this.turn, this.mix];
    const to = layout === "3-D" ? ASLANT : { yaw: 0, pitch: 0, depth: 0 };
    this.tween("layout", 600, (share) => {
      const between = (name) => from[name] + (to[name] - from[name]) * share;
      this.turn = { yaw: between("yaw"), pitch: between("pitch"), depth: between("depth") };
      this.mix = mix + (this.target - mix) * share;
    });
  }

  get solid() {
    return this.layout === "3-D";
  }

  /** Where `mix` leads to. */
  get target() {
    return this.layout === "neighbours" && this.beside ? 1 : 0;
  }

  /** Glides to the best results and the query: all of the map, where these lie far apart. */
  approach() {
    const marks = [...this.hits.slice(0, NUMBERED), ...(this.query ? [this.query] : [])];
    if (!this.width || !marks.length) return;
    const now = [this.transform, this.mix];
    [this.transform, this.mix] = [WHOLE, this.target];
    const spots = marks.flatMap((one) => this.screen(this.spot(one)).slice(0, 2));
    [this.transform, this.mix] = now;
    const [[left, right], [top, low]] = [0, 1].map((axis) => extent(spots, axis, 2, marks.length));
    const fits = Math.min((this.width - 2 * ROOM) / (right - left || 1), (this.height - 2 * ROOM) / (low - top || 1));
    const k = Math.min(fits, NEAREST);
    this.glide(k > 1.2 ? { k, x: (this.width - k * (left + right)) / 2, y: (this.height - k * (top + low)) / 2 } : WHOLE);
  }

  /** What is seen, for plots of other sizes too: the zoom, and where its middle lies. Settable. */
  get view() {
    const { k, x, y } = this.transform;
    const part = (moved, whole) => ((whole / 2 - moved) / k / whole).toFixed(3);
    const seen = [k.toFixed(2), part(x, this.width), part(y, this.height)].join(" ");
    return !this.width || seen === "1.00 0.500 0.500" ? "" : seen;
  }

  set view(text) {
    const [k, x, y] = text.split(" ").map(Number);
    if (this.width && k > 0) this.look({ k, x: this.width / 2 - x * k * this.width, y: this.height / 2 - y * k * this.height });
  }

  glide(to) {
    const from = this.transform;
    const between = (name, share) => from[name] + (to[name] - from[name]) * share;
    this.tween("transform", 500, (share) => (this.transform = { k: between("k", share), x: between("x", share), y: between("y", share) }));
  }

  /** Rings around the points of the text that is open; its pin, too, stands out. */
  mark(name) {
    this.marked = name ? this.all((point) => key(this.panel.about(point)) === name) : [];
    this.opened = this.active = (name && this.hits.find((hit) => key(hit) === name)) || null;
    this.draw();
  }

  /** Lets points stand out, and the name of their region; null: none. */
  light(points, region = null) {
    this.focus = region;
    this.lit = points && new Uint8Array(this.panel.count);
    for (const point of points ?? []) this.lit[point] = 1;
    this.draw();
  }

  /** The points of a region. */
  within(region) {
    const { regions, regionOf } = this.panel;
    const number = regions.indexOf(region);
    return this.all((point) => regionOf[point] === number);
  }

  /** Those of some points that lie in their middle, as it is seen now. */
  typical(points, count) {
    const { place } = this;
    const mean = (axis) => points.reduce((sum, point) => sum + place[point * 3 + axis], 0) / points.length;
    const [x, y] = [mean(0), mean(1)];
    const far = (point) => Math.hypot(place[point * 3] - x, place[point * 3 + 1] - y);
    const step = Math.ceil(points.length / MANY);
    return points.filter((_, n) => n % step === 0).sort((one, other) => far(one) - far(other)).slice(0, count);
  }

  all(wanted) {
    const found = [];
    for (let n = 0; n < this.panel.count; n++) if (wanted(n)) found.push(n);
    return found;
  }

  /** The search's hits and query in this panel; what is not a hit is dimmed. */
  show(hits, query) {
    this.hits = hits.map((hit) => ({ ...hit, on: contrasting(hit.colour) }));
    this.query = query;
    this.active = this.opened = null;
    this.describe();
    this.draw();
  }

  hide(collections) {
    this.hidden = collections;
    this.drop();
  }

  /** Takes what is gone off the map. */
  drop() {
    const points = gone.size ? this.all((point) => !there(this.panel.about(point))) : [];
    this.absent = points.length ? new Set(points) : null;
    this.draw();
  }

  shows(hit) {
    return !this.hidden.has(hit.collection) && there(hit);
  }

  highlight(hit) {
    this.active = hit ?? this.opened;
    this.draw();
  }

  restyle() {
    const style = getComputedStyle(this.canvas);
    for (const name of ["ink", "surface", "line", "muted", "accent"]) {
      this.canvas.style.setProperty("color", `var(--${name})`); // a host's may be light-dark()
      this[name] = hex(style.color);
    }
    this.font = style.getPropertyValue("--font").trim();
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
    this.draw();
  }

  describe() {
    const { panel, hits } = this;
    const dimensions = this.solid ? 3 : 2;
    const share = Math.round(panel.explained.slice(0, dimensions).reduce((sum, one) => sum + one, 0) * 100);
    this.canvas.dataset.points = panel.count;
    this.canvas.dataset.hits = hits.length;
    this.canvas.dataset.restOpacity = hits.length ? REST_OPACITY : 0.85;
    this.canvas.dataset.layout = this.layout;
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${panel.count.toLocaleString("en")} points in ${panel.groups.length} ` +
        `collections, ${dimensions}-D, ${share} % of the variance. ` +
        (hits.length ? `${hits.length} results marked. ` : "") +
        "Arrow keys go through the results, Enter opens one, plus and minus zoom, 0 resets." +
        (this.solid ? " Shift with arrow keys turns it." : ""),
    );
  }

  /** Calls `step` with what has passed of the time, from 0 to 1; at once where motion is reduced. */
  tween(name, length, step) {
    this.moves.set(name, { start: performance.now(), length: STILL.matches ? 0 : length, step });
    cancelAnimationFrame(this.timer);
    const next = () => {
      for (const [one, { start, length: all, step: act }] of this.moves) {
        const share = all ? Math.min((performance.now() - start) / all, 1) : 1;
        act(share * share * (3 - 2 * share));
        if (share === 1) this.moves.delete(one);
      }
      this.draw(true);
      if (this.moves.size) this.timer = requestAnimationFrame(next);
    };
    next();
  }

  listen() {
    gestures(this.canvas, {
      hover: ([x, y]) => this.point(x, y),
      leave: () => this.leave(),
      click: ([x, y]) => {
        const found = this.at(x, y);
        this.leave();
        if (found) this.on.pick(found);
      },
      shift: (dx, dy) => this.shift(dx, dy),
      drag: (dx, dy) =>
        this.solid ? this.rotate(dx * 0.01, dy * 0.01) : this.shift(dx, dy),
      zoom: (factor, place) => this.look(zoomed(this.transform, factor, place)),
      lassoes: (event) => this.lassoing || event.shiftKey,
      stretch: (line) => {
        this.loop = line;
        this.leave();
        this.draw(true);
      },
      lasso: (line) => this.catch(line),
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => this.leave());
  }

  point(x, y) {
    const found = this.at(x, y);
    this.canvas.style.setProperty("cursor", this.lassoing ? "crosshair" : found ? "pointer" : "grab");
    if (!found) return this.leave();
    this.pointing = true;
    this.on.hover(found, found.x, found.y);
  }

  leave() {
    if (this.pointing) this.on.hover(null);
    this.pointing = false;
  }

  /** What lies inside a line is picked. */
  catch(line) {
    this.loop = this.ring = null;
    this.lassoing = false;
    this.on.lassoed?.();
    const { place } = this;
    const points = line
      ? this.all((n) => place[n * 3 + 2] && encloses(line, place[n * 3], place[n * 3 + 1]))
      : [];
    if (line) this.on.pick({ points });
    this.draw();
  }

  /** A circle that keys move, as the line around points. */
  circle({ x, y, r } = { x: this.width / 2, y: this.height / 2, r: Math.min(this.width, this.height) / 5 }) {
    this.ring = { x, y, r };
    this.canvas.focus();
    this.loop = Array.from({ length: CORNERS }, (_, n) => {
      const angle = (n / CORNERS) * 2 * Math.PI;
      return [x + r * Math.cos(angle), y + r * Math.sin(angle)];
    });
    this.draw();
  }

  look(transform) {
    this.moves.delete("transform");
    this.transform = transform;
    this.leave();
    this.draw(true);
  }

  shift(dx, dy) {
    const { k, x, y } = this.transform;
    this.look({ k, x: x + dx, y: y + dy });
  }

  rotate(yaw, pitch) {
    this.moves.delete("layout");
    this.turn.yaw += yaw;
    this.turn.pitch = Math.max(-1.5, Math.min(1.5, this.turn.pitch + pitch));
    this.leave();
    this.draw(true);
  }

  scaleBy(factor) {
    this.look(zoomed(this.transform, factor, [this.width / 2, this.height / 2]));
  }

  reset() {
    if (this.solid) this.turn = { ...ASLANT };
    this.glide(WHOLE);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const { x, y, r } = this.ring ?? {};
    if (this.ring && step) this.circle(sideways ? { x: x + step * STRIDE, y, r } : { x, y: y + step * STRIDE, r });
    else if (this.ring && "+=".includes(event.key)) this.circle({ x, y, r: r * 1.2 });
    else if (this.ring && event.key === "-") this.circle({ x, y, r: r / 1.2 });
    else if (this.ring && event.key === "Enter") this.catch(this.loop);
    else if (this.ring && event.key === "Escape") this.catch(null);
    else if (step && event.shiftKey && this.solid) {
      this.rotate(sideways ? step * 0.12 : 0, sideways ? 0 : step * 0.12);
    } else if (step) this.stepTo(step);
    else if (event.key === "Enter" && this.active) this.on.pick({ hit: this.active });
    else if (event.key === "+" || event.key === "=") this.scaleBy(1.3);
    else if (event.key === "-") this.scaleBy(1 / 1.3);
    else if (event.key === "0") this.reset();
    else if (event.key === "Escape" && !this.opened && !this.marked.length) this.highlight(null), this.reset();
    else return;
    event.preventDefault();
  }

  stepTo(step) {
    if (!this.hits.length) return;
    const now = this.hits.indexOf(this.active);
    const next = now < 0 ? (step > 0 ? 0 : this.hits.length - 1) : now + step;
    this.active = this.hits[(next + this.hits.length) % this.hits.length];
    this.paint();
    const [x, y] = this.screen(this.spot(this.active));
    this.pointing = true;
    this.on.hover({ hit: this.active }, x, y);
    this.on.step(this.active);
  }

  /** What lies at a place of the canvas: { hit } or { point }, with its place; else null. */
  at(x, y) {
    let best = null;
    let least = REACH * REACH;
    for (const hit of this.hits.filter((one) => this.shows(one))) {
      const [hx, hy] = hit.pin ?? this.screen(this.spot(hit));
      const far = (hx - x) ** 2 + (hy - y) ** 2;
      if (far < least) [best, least] = [{ hit, x: hx, y: hy }, far];
    }
    if (best) return best;
    for (const { region, box } of this.labels) {
      if (x < box[0] || x > box[2] || y < box[1] || y > box[3]) continue;
      return region.words ? { region, x, y } : { point: region.point, x, y };
    }
    least /= 3;
    const { place, panel } = this;
    for (let n = 0; n < panel.count; n++) {
      const far = (place[n * 3] - x) ** 2 + (place[n * 3 + 1] - y) ** 2;
      if (far < least && place[n * 3 + 2]) {
        [best, least] = [{ point: n, x: place[n * 3], y: place[n * 3 + 1] }, far];
      }
    }
    return best;
  }

  /** The numbers that turn coordinates into pixels, for this frame. */
  camera() {
    const { yaw, pitch, depth } = this.turn;
    const [hz, mix] = [this.half[2], this.mix];
    const [hx, hy] = [0, 1].map((n) => this.half[n] * (1 - mix) + (this.halfBeside?.[n] ?? 0) * mix);
    const round = Math.hypot(hx, hy, hz);
    const wide = hx + (round - hx) * depth;
    const tall = hy + (round - hy) * depth;
    const fits = Math.min((this.width / 2 - PAD) / wide, (this.height / 2 - PAD) / tall);
    const scale = fits * (1 + 0.25 * depth); // corners of the box are seldom taken
    const [sy, cy, sp, cp] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
    return { scale, sy, cy, sp, cp, depth, round };
  }

  /** Where a hit or a query lies now, between the two layouts. */
  spot({ at, beside }) {
    if (!this.mix || !this.beside || !beside) return at;
    const over = [0, 1].map((n) => (beside[n] - this.from[n]) * this.stretch + this.centre[n]);
    return at.map((value, n) => value + ((over[n] ?? this.centre[2]) - value) * this.mix);
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

  /** Draws with the next frame, once however often it was asked for; in full once it rests. */
  draw(moving = false) {
    if (moving) {
      this.moving = true;
      clearTimeout(this.rests);
      this.rests = setTimeout(() => {
        this.moving = false;
        this.draw();
        this.on.rests?.();
      }, REST);
    }
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
    this.paintRest(camera);
    if (this.mix < 1) this.paintAxes(camera);
    this.pins = this.pinned(camera);
    this.paintRegions();
    this.paintHits(camera);
    this.paintLine();
    this.canvas.dataset.frame = (performance.now() - start).toFixed(1);
  }

  paintLine() {
    if (!this.loop) return;
    const { context } = this;
    context.beginPath();
    for (const [x, y] of this.loop) context.lineTo(x, y);
    context.closePath();
    context.globalAlpha = 0.15;
    context.fillStyle = context.strokeStyle = this.accent;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.stroke();
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
      context.globalAlpha = (axis === 2 ? this.turn.depth : 1) * (1 - this.mix);
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

  /** The loop over all points: no call, no allocation. */
  paintRest(camera) {
    const { context, panel, place, width, height, mix, beside, lit, absent, codes } = this;
    const known = this.colours.length;
    const { xyz, groupOf, count } = panel;
    const { scale, sy, cy, sp, cp, depth, round } = camera;
    const { k, x: tx, y: ty } = this.transform;
    const [mx, my, mz] = this.centre;
    const [left, top] = [(width / 2) * k + tx, (height / 2) * k + ty];
    const shown = panel.groups.map((group) => !this.hidden.has(group.collection));
    const full = Math.round(256 * (this.hits.length ? REST_OPACITY : 0.85));
    const step = this.moving ? Math.ceil(count / CLOUD) : 1; // of many, some are drawn meanwhile
    for (let n = 0; n < count; n += step) {
      let x = xyz[n * 3] - mx;
      let y = xyz[n * 3 + 1] - my;
      if (mix) {
        x += (beside[n * 2] - x) * mix;
        y += (beside[n * 2 + 1] - y) * mix;
      }
      const z = (xyz[n * 3 + 2] - mz) * depth;
      const away = z * cy - x * sy;
      place[n * 3] = left + (x * cy + z * sy) * scale * k;
      place[n * 3 + 1] = top - (y * cp - away * sp) * scale * k;
      const near = (1 + ((away * cp + y * sp) / round) * 0.3 * depth) * (codes[n] < known ? 1 : PALE);
      place[n * 3 + 2] = shown[groupOf[n]] && !absent?.has(n) // what is near is stronger
        ? Math.min(256, (!lit ? full : lit[n] ? 230 : full * 0.25) * near)
        : 0;
    }
    const picture = this.raster.draw({
      ...{ width, height, place, step, codes, paper: this.surface },
      ratio: this.moving ? 1 : this.ratio,
      colours: [...this.colours, this.muted],
      radius: this.radius(),
      haze: this.moving || depth || count < CROWD ? null : this.muted,
    });
    context.drawImage(picture, 0, 0, width, height);
  }

  /** The names of as many regions as there is room for: of the layout in which they lie together. */
  paintRegions() {
    const { context } = this;
    const regions = this.mix > 0.5 ? this.panel.regions : [];
    const names = this.moving ? regions : [...regions, ...this.singles()];
    context.font = `600 12px ${this.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    const measure = (text) => (this.widths[text] ??= context.measureText(text).width);
    const { shown, star } = this.pins;
    const taken = shown.map(({ rank, pin: [x, y] }) => around(x, y, rank > NUMBERED ? 5 : 9));
    if (star) taken.push([star[0] - 36, star[1] - 11, star[0] + 36, star[1] + 32]);
    this.labels = placed(names, this.place, measure, taken, this);
    for (const { region, text, x, y } of this.labels) {
      context.strokeStyle = this.surface;
      context.font = `${region.words ? "600 12" : "11"}px ${this.font}`;
      context.fillStyle = region === this.focus ? this.accent : this.ink;
      if (!this.moving) context.strokeText(text, x, y);
      context.fillText(text, x, y);
    }
    context.textBaseline = "alphabetic";
    if (this.moving) return;
    this.canvas.dataset.regions = this.labels.filter(({ region }) => region.words).length;
    this.canvas.dataset.zoom = this.transform.k.toFixed(2);
    this.canvas.dataset.labels = JSON.stringify(this.labels.map(({ text, x, y }) => ({ text, x, y })));
  }

  /** The titles of the points, where few are in sight. */
  singles() {
    const { place, panel, width, height } = this;
    if (this.transform.k < NAMED) return [];
    const seen = this.all((n) => place[n * 3 + 2] && place[n * 3] > 0 && place[n * 3] < width && place[n * 3 + 1] > 0 && place[n * 3 + 1] < height);
    if (seen.length > FEW) return [];
    const named = new Map(seen.map((point) => [panel.titles[point], point]));
    return [...named].filter(([title]) => title).map(([title, point]) => ({ name: clip(title, TITLE), point }));
  }

  radius() {
    const { count } = this.panel;
    return count > CLOUD ? 1.2 : count > MANY ? 2 : count > 800 ? 3 : 4.5;
  }

  /** Where the results and the star of the query stand in this frame. */
  pinned(camera) {
    const star = this.query ? this.screen(this.spot(this.query), camera) : null;
    const shown = this.hits.filter((hit) => this.shows(hit));
    for (const hit of shown) hit.pin = this.screen(this.spot(hit), camera).slice(0, 2);
    apart(shown.filter(({ rank }) => rank <= NUMBERED).map((hit) => hit.pin), star);
    return { shown, star };
  }

  paintHits(camera) {
    const { context } = this;
    const { shown, star: query } = this.pins;
    if (query && this.active) {
      const [x, y] = this.active.pin;
      line(context, query, [x, y], this.accent);
    }
    for (const point of this.marked) this.paintRing(point);
    for (const hit of shown.toReversed()) {
      const [x, y] = hit.pin;
      const own = this.screen(this.spot(hit), camera);
      if (Math.hypot(x - own[0], y - own[1]) > 6) tether(context, own, [x, y], hit.colour);
      const active = hit === this.active;
      const radius = (hit.rank > NUMBERED ? 5 : 9) + (active ? 3 : 0);
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fillStyle = hit.colour;
      context.fill();
      context.lineWidth = active ? 3 : 1.5;
      context.strokeStyle = active ? this.accent : this.ink;
      context.stroke();
      if (hit.rank > NUMBERED) continue;
      context.fillStyle = hit.on;
      context.font = `600 10px ${this.font}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(hit.rank, x, y + 0.5);
      context.textBaseline = "alphabetic";
    }
    if (query) this.paintStar(query);
    if (query) this.paintLabel(query);
  }

  paintRing(point) {
    const { context, place } = this;
    context.beginPath();
    context.arc(place[point * 3], place[point * 3 + 1], this.radius() + 5, 0, 2 * Math.PI);
    context.lineWidth = 2.5;
    context.strokeStyle = this.accent;
    context.stroke();
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
    context.strokeStyle = this.surface;
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
    context.strokeStyle = this.surface;
    context.fillStyle = this.accent;
    const across = Math.max(36, Math.min(this.width - 36, x));
    context.strokeText("your query", across, y + 25);
    context.fillText("your query", across, y + 25);
  }
}

const around = (x, y, far) => [x - far, y - far, x + far, y + far];

/** The least and the greatest of every `step`-th value. */
function extent(values, first, step, count) {
  let [low, high] = count ? [Infinity, -Infinity] : [0, 0];
  for (let n = first; n < count * step; n += step) {
    low = Math.min(low, values[n]);
    high = Math.max(high, values[n]);
  }
  return [low, high];
}

function line(context, from, to, colour) {
  context.save();
  context.setLineDash([4, 4]);
  tether(context, from, to, colour);
  context.restore();
}

/** Moves pins that hide each other, or the star, a little apart. */
function apart(pins, star) {
  const fixed = star ? [star, [star[0], star[1] + PIN]] : []; // and its name below
  for (let round = 0; round < 8; round++) {
    pins.forEach((pin, n) => {
      for (const other of [...pins.slice(0, n), ...fixed]) {
        const [dx, dy] = [pin[0] - other[0], pin[1] - other[1]];
        const far = Math.hypot(dx, dy);
        if (far >= PIN) continue;
        const angle = far ? Math.atan2(dy, dx) : n * 2.4;
        const push = (PIN - far) / 2 + 0.5;
        pin[0] += Math.cos(angle) * push;
        pin[1] += Math.sin(angle) * push;
      }
    });
  }
}

/** From a point to its pin. */
function tether(context, from, to, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}

/** Black or white, whichever reads better on a colour. */
function contrasting(colour) {
  const [r, g, b] = channels(hex(colour));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 140 ? "#111" : "#fff";
}

/** A colour for each collection, by its place among all of them. */
export const palette = (count) => Array.from({ length: Math.max(count, 1) }, (_, n) => hue(n));
