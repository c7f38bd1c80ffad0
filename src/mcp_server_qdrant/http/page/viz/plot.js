// One panel of the map: a scatter plot on a canvas, in two or three dimensions.
//
// While it moves it is drawn in a lower resolution.
import { Camera } from "./camera.js";
import { gone, key, there } from "./dom.js";
import { listen } from "./input.js";
import { opacity, paintAll } from "./layers.js";
import { contrasting, numbered } from "./pins.js";
import { hex, Raster } from "./raster.js";

const REST = 140; // ms without movement before it is drawn in full resolution
const MIDDLE = 4000; // most points of a region whose middle is computed
const GLIDE = 500; // ms of an animation
const STILL = "(prefers-reduced-motion: reduce)";

export class Plot {
  /**
   * `on` has callbacks: hover(found or null, x, y), step(hit), sized() once, rests() and pick(found), where found is
   * { hit }, { point } or { region }.
   */
  constructor(holder, panel, colours, on) {
    this.panel = panel;
    this.on = on;
    this.camera = new Camera(panel);
    this.raster = new Raster();
    this.place = new Float32Array(panel.count * 3); // x, y and strength of each point
    this.paintBy(panel.groupOf, colours);
    this.widths = {}; // name -> pixels
    this.labels = [];
    this.hits = []; // { rank, at, neighbours, collection, id, title, snippet }
    this.query = this.active = this.opened = null; // the query; the hit pointed at; the open one
    this.marked = []; // the points of the open text
    this.lit = this.focus = null; // a byte per point, not 0 if emphasised; the emphasised region
    this.hidden = new Set();
    this.absent = null; // points that are deleted
    this.canvas = holder.appendChild(document.createElement("canvas"));
    this.canvas.plot = this; // for tests and the console, which cannot reach the app's module
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", "scatter plot");
    this.context = this.canvas.getContext("2d");
    listen(this);
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(holder);
    this.restyle();
  }

  destroy() {
    this.watcher.disconnect();
    this.stop();
    clearTimeout(this.resting);
    this.canvas.remove();
  }

  /** `codes` are indexes into `colours`; points with a larger code are pale. */
  paintBy(codes, colours) {
    this.codes = codes;
    this.colours = colours.map(hex);
    this.draw();
  }

  arrange(layout) {
    this.camera.arrange(layout);
    this.describe();
    this.draw(true);
  }

  /** Glides to the best results and the query. */
  approach() {
    const marks = [...this.hits.filter(numbered), ...(this.query ? [this.query] : [])];
    if (this.width && marks.length) this.glide(this.camera.around(marks));
  }

  /** Moves to another transform; without animation if the person prefers that. */
  glide(to) {
    this.stop();
    const [from, start] = [this.camera.transform, performance.now()];
    const step = () => {
      const passed = matchMedia(STILL).matches ? 1 : Math.min((performance.now() - start) / GLIDE, 1);
      const share = passed * passed * (3 - 2 * passed);
      const between = (name) => from[name] + (to[name] - from[name]) * share;
      this.camera.transform = { k: between("k"), x: between("x"), y: between("y") };
      this.draw(true);
      if (passed < 1) this.timer = requestAnimationFrame(step);
    };
    step();
  }

  stop() {
    cancelAnimationFrame(this.timer);
  }

  /** Marks the open text: rings around its points, and its pin is larger. */
  mark(name) {
    this.marked = name ? this.all((point) => key(this.panel.about(point)) === name) : [];
    this.opened = this.active = (name && this.hits.find((hit) => key(hit) === name)) || null;
    this.draw();
  }

  /** Emphasises points and the name of their region; null: none. */
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

  /** Of some points, those nearest to their middle on the screen. */
  typical(points, count) {
    const mean = (axis) => points.reduce((sum, point) => sum + this.at(point)[axis], 0) / points.length;
    const [x, y] = [mean(0), mean(1)];
    const far = (point) => Math.hypot(this.at(point)[0] - x, this.at(point)[1] - y);
    const step = Math.ceil(points.length / MIDDLE);
    return points.filter((_, n) => n % step === 0).sort((one, other) => far(one) - far(other)).slice(0, count);
  }

  /** The position of a point on the screen. */
  at(point) {
    return [this.place[point * 3], this.place[point * 3 + 1]];
  }

  all(wanted) {
    const found = [];
    for (let n = 0; n < this.panel.count; n++) if (wanted(n)) found.push(n);
    return found;
  }

  /** Shows the hits and the query of a search; other points are dimmed. */
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

  /** Hides deleted texts. */
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
      this.canvas.style.setProperty("color", `var(--${name})`); // a host's colour may be light-dark()
      this[name] = hex(style.color);
    }
    this.font = style.getPropertyValue("--font").trim();
    this.draw();
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    const first = !this.width;
    this.ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
    this.width = this.camera.width = clientWidth;
    this.height = this.camera.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * this.ratio);
    this.canvas.height = Math.round(clientHeight * this.ratio);
    if (first) this.on.sized?.();
    this.draw();
  }

  describe() {
    const { panel, hits, camera } = this;
    const dimensions = camera.solid ? 3 : 2;
    const share = Math.round(panel.explained.slice(0, dimensions).reduce((sum, one) => sum + one, 0) * 100);
    Object.assign(this.canvas.dataset, { points: panel.count, hits: hits.length, restOpacity: opacity(this), layout: camera.layout });
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${panel.count.toLocaleString("en")} points in ${panel.groups.length} ` +
        `collections, ${dimensions}-D, ${share} % of the variance. ` +
        (hits.length ? `${hits.length} results marked. ` : "") +
        "Arrow keys go through the results, Enter opens one, plus and minus zoom, 0 resets." +
        (camera.solid ? " Shift with arrow keys turns it." : ""),
    );
  }

  leave() {
    if (this.pointing) this.on.hover(null);
    this.pointing = false;
  }

  look(transform) {
    this.stop();
    this.camera.transform = transform;
    this.leave();
    this.draw(true);
  }

  shift(dx, dy) {
    const { k, x, y } = this.camera.transform;
    this.look({ k, x: x + dx, y: y + dy });
  }

  rotate(yaw, pitch) {
    const { turn } = this.camera;
    this.camera.turn = { ...turn, yaw: turn.yaw + yaw, pitch: Math.max(-1.5, Math.min(1.5, turn.pitch + pitch)) };
    this.leave();
    this.draw(true);
  }

  zoom(factor, place) {
    this.look(this.camera.zoomed(factor, place));
  }

  scaleBy(factor) {
    this.zoom(factor, [this.width / 2, this.height / 2]);
  }

  reset() {
    this.glide(this.camera.reset());
  }

  /** Draws with the next frame; in full resolution once nothing moves. */
  draw(moving = false) {
    if (moving) {
      this.moving = true;
      clearTimeout(this.resting);
      this.resting = setTimeout(() => {
        this.moving = false;
        this.draw();
        this.on.rests?.();
      }, REST);
    }
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      this.paint();
    });
  }

  paint() {
    if (!this.width) return;
    const start = performance.now();
    paintAll(this);
    this.canvas.dataset.frame = (performance.now() - start).toFixed(1);
  }
}
