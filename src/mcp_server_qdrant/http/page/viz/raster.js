// Points as pixels: 10,000 of them are a few milliseconds, without a graphics processor.

export const HUES = [
  "#3b82d0", "#e08a00", "#0aa37a", "#d9558f", "#56b4e9", "#b08d00", "#d0541b", "#7a5195",
]; // after Okabe and Ito: told apart by the colour-blind, on light and dark
const MASK_STEPS = 4;

/** The colour and the shape of the n-th thing: eight hues, then the same with another shape. */
export const hue = (n) => HUES[n % HUES.length];
export const shape = (n) => Math.floor(n / HUES.length) % 4;

export const channels = (colour) => {
  const value = Number.parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
};

const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", {
  willReadFrequently: true,
});

/** A colour of CSS as #rrggbb. */
export function hex(colour) {
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  const { data } = probe.getImageData(0, 0, 1, 1);
  return `#${[...data.slice(0, 3)].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** What part of each pixel a mark of a shape covers: triples of dx, dy and a coverage to 256. */
function mask(kind, radius) {
  const inside = [
    (x, y) => x * x + y * y <= radius * radius,
    (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= radius * 0.85,
    (x, y) => y <= radius * 0.8 && y >= Math.abs(x) * 1.7 - radius * 1.1,
    (x, y) => Math.abs(x) + Math.abs(y) <= radius * 1.15,
  ][kind];
  const reach = Math.ceil(radius * 1.2);
  const found = [];
  for (let dy = -reach; dy <= reach; dy++) {
    for (let dx = -reach; dx <= reach; dx++) {
      let hits = 0;
      for (let n = 0; n < MASK_STEPS ** 2; n++) {
        const [a, b] = [n % MASK_STEPS, Math.floor(n / MASK_STEPS)];
        hits += inside(dx + (a + 0.5) / MASK_STEPS - 0.5, dy + (b + 0.5) / MASK_STEPS - 0.5);
      }
      if (hits) found.push(dx, dy, Math.round((hits / MASK_STEPS ** 2) * 256));
    }
  }
  return { marks: Int16Array.from(found), reach };
}

export class Raster {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
    this.masks = new Map();
  }

  /**
   * Draws marks: `place` has x, y, strength (0: none) of each in CSS pixels, `codes` which of the
   * `colours` it has; `radius` in CSS pixels.
   */
  draw({ width, height, ratio, place, codes, colours, radius, paper }) {
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    const { canvas, context } = this;
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    if (this.image?.width !== wide || this.image.height !== high) this.image = context.createImageData(wide, high);
    const pixels = new Uint32Array(this.image.data.buffer);
    const [red, green, blue] = channels(paper);
    pixels.fill((0xff000000 | (blue << 16) | (green << 8) | red) >>> 0);
    const count = place.length / 3;
    const masks = [0, 1, 2, 3].map((kind) => this.mask(kind, radius * ratio));
    const [rb, g] = [[], []];
    for (const colour of colours) {
      const [r, middle, b] = channels(colour);
      rb.push(r | (b << 16));
      g.push(middle << 8);
    }
    for (let n = 0; n < count; n++) {
      const strength = place[n * 3 + 2];
      if (!strength) continue;
      const code = codes[n];
      const { marks, reach } = masks[shape(code)];
      const x = Math.round(place[n * 3] * ratio);
      const y = Math.round(place[n * 3 + 1] * ratio);
      if (!(x >= reach && y >= reach && x < wide - reach && y < high - reach)) continue;
      const [srb, sg] = [rb[code] ?? rb[rb.length - 1], g[code] ?? g[g.length - 1]];
      const base = y * wide + x;
      for (let m = 0; m < marks.length; m += 3) {
        const at = base + marks[m + 1] * wide + marks[m];
        const a = (marks[m + 2] * strength) >> 8;
        const b = 256 - a;
        const was = pixels[at];
        pixels[at] =
          0xff000000 |
          ((((was & 0xff00ff) * b + srb * a) >>> 8) & 0xff00ff) |
          ((((was & 0x00ff00) * b + sg * a) >>> 8) & 0x00ff00);
      }
    }
    context.putImageData(this.image, 0, 0);
    return canvas;
  }

  mask(kind, radius) {
    const key = kind * 1000 + radius;
    if (!this.masks.has(key)) this.masks.set(key, mask(kind, radius));
    return this.masks.get(key);
  }
}
