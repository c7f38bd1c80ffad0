// One panel of the map: a scatter plot on a canvas, in two or three dimensions.
//
// Both are the same picture: two dimensions are the three seen from the front. While it moves it is
// drawn in fewer pixels; at rest in all of them, with crowded places shaded.

import { encloses, gestures, zoomed } from "./gestures.js";
import { channels, hex, hue, Raster } from "./raster.js";
import { placed } from "./regions.js";

const WHOLE = { k: 1, x: 0, y: 0 };
const ASLANT = { yaw: 0.6, pitch: 0.35, depth: 1 };
const REST_OPACITY = 0.4;
const PAD = 34;
const PIN = 19; // pixels between the middles of two pins
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
    this.dimensions = 2;
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

  /** Moves over to the layout by neighbours (1), or back to principal components (0). */
  move(mix) {
    if (mix && !this.beside) return;
    const from = this.mix;
    this.tween(600, (share) => (this.mix = from + (mix - from) * share));
    this.describe();
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
    const share = Math.round(panel.explained.slice(0, this.dimensions).reduce((sum, one) => sum + one, 0) * 100);
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
    const from = this.turn;
    const to = dimensions === 3 ? ASLANT : { yaw: 0, pitch: 0, depth: 0 };
    const mix = this.mix;
    const target = dimensions === 3 || !this.beside ? 0 : this.wanted ?? 1;
    this.tween(500, (share) => {
      const between = (name) => from[name] + (to[name] - from[name]) * share;
      this.turn = { yaw: between("yaw"), pitch: between("pitch"), depth: between("depth") };
      this.mix = mix + (target - mix) * share;
    });
  }

  /** Calls `step` with what has passed of the time, from 0 to 1; at once where motion is reduced. */
  tween(length, step) {
    cancelAnimationFrame(this.timer);
    const start = performance.now();
    const next = () => {
      const share = STILL.matches ? 1 : Math.min((performance.now() - start) / length, 1);
      step(share * share * (3 - 2 * share));
      this.draw(true);
      if (share < 1) this.timer = requestAnimationFrame(next);
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
        this.dimensions === 3 ? this.rotate(dx * 0.01, dy * 0.01) : this.shift(dx, dy),
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
    this.transform = transform;
    this.leave();
    this.draw(true);
  }

  shift(dx, dy) {
    const { k, x, y } = this.transform;
    this.look({ k, x: x + dx, y: y + dy });
  }

  rotate(yaw, pitch) {
    cancelAnimationFrame(this.timer);
    this.turn.yaw += yaw;
    this.turn.pitch = Math.max(-1.5, Math.min(1.5, this.turn.pitch + pitch));
    this.leave();
    this.draw(true);
  }

  scaleBy(factor) {
    this.look(zoomed(this.transform, factor, [this.width / 2, this.height / 2]));
  }

  reset() {
    if (this.dimensions === 3) this.turn = { ...ASLANT };
    this.look(WHOLE);
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
    else if (step && event.shiftKey && this.dimensions === 3) {
      this.rotate(sideways ? step * 0.12 : 0, sideways ? 0 : step * 0.12);
    } else if (step) this.stepTo(step);
    else if (event.key === "Enter" && this.active) this.on.pick({ hit: this.active });
    else if (event.key === "+" || event.key === "=") this.scaleBy(1.3);
    else if (event.key === "-") this.scaleBy(1 / 1.3);
    else if (event.key === "0") this.reset();
    else if (event.key === "Escape") this.highlight(null), this.leave();
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
    for (const hit of this.hits) {
      const [hx, hy] = hit.pin ?? this.screen(this.spot(hit));
      const far = (hx - x) ** 2 + (hy - y) ** 2;
      if (far < least) [best, least] = [{ hit, x: hx, y: hy }, far];
    }
    if (best) return best;
    for (const { region, box } of this.labels) {
      if (x > box[0] && x < box[2] && y > box[1] && y < box[3]) return { region, x, y };
    }
    least /= 3;
    const { place, panel } = this;
    for (let n = 0; n < panel.count; n++) {
      const far = (place[n * 3] - x) ** 2 + (place[n * 3 + 1] - y) ** 2;
      if (far < least && place[n * 3 + 2] && !this.hidden.has(panel.collectionOf(n))) {
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
    const { context, panel, place, width, height, mix, beside, lit } = this;
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
      const near = 1 + ((away * cp + y * sp) / round) * 0.3 * depth; // what is near is stronger
      place[n * 3 + 2] = shown[groupOf[n]]
        ? Math.min(256, (!lit ? full : lit[n] ? 230 : full * 0.25) * near)
        : 0;
    }
    const picture = this.raster.draw({
      ...{ width, height, place, step, codes: this.codes, paper: this.surface },
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
    context.font = `600 12px ${this.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    const measure = (text) => (this.widths[text] ??= context.measureText(text).width);
    const { shown, star } = this.pins;
    const taken = shown.map(({ pin: [x, y] }) => [x - 9, y - 9, x + 9, y + 9]);
    if (star) taken.push([star[0] - 36, star[1] - 11, star[0] + 36, star[1] + 32]);
    this.labels = placed(regions, this.place, measure, taken, this);
    for (const { region, text, x, y } of this.labels) {
      context.strokeStyle = this.surface;
      context.fillStyle = region === this.focus ? this.accent : this.ink;
      if (!this.moving) context.strokeText(text, x, y);
      context.fillText(text, x, y);
    }
    context.textBaseline = "alphabetic";
    if (this.moving) return;
    this.canvas.dataset.regions = this.labels.length;
    this.canvas.dataset.labels = JSON.stringify(this.labels.map(({ text, x, y }) => ({ text, x, y })));
  }

  radius() {
    const { count } = this.panel;
    return count > CLOUD ? 1.2 : count > MANY ? 2 : count > 800 ? 3 : 4.5;
  }

  /** Where the results and the star of the query stand in this frame. */
  pinned(camera) {
    const star = this.query ? this.screen(this.spot(this.query), camera) : null;
    const shown = this.hits.filter((hit) => !this.hidden.has(hit.collection));
    for (const hit of shown) hit.pin = this.screen(this.spot(hit), camera).slice(0, 2);
    apart(shown.map((hit) => hit.pin), star);
    return { shown, star };
  }

  paintHits(camera) {
    const { context } = this;
    const { shown, star: query } = this.pins;
    if (query && this.active) {
      const [x, y] = this.active.pin;
      line(context, query, [x, y], this.accent);
    }
    if (query) this.paintStar(query);
    for (const hit of shown.toReversed()) {
      const [x, y] = hit.pin;
      const own = this.screen(this.spot(hit), camera);
      if (Math.hypot(x - own[0], y - own[1]) > 6) tether(context, own, [x, y], hit.colour);
      const active = hit === this.active;
      const radius = active ? 12 : 9;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fillStyle = hit.colour;
      context.fill();
      context.lineWidth = active ? 3 : 1.5;
      context.strokeStyle = active ? this.accent : this.ink;
      context.stroke();
      context.fillStyle = hit.on;
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
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
  context.restore();
}

/** Moves pins that hide each other, or the star, a little apart. */
function apart(pins, star) {
  const fixed = star ? [star] : [];
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
