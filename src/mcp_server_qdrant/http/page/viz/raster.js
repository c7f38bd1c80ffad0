// Draws points as pixels: 10,000 take a few milliseconds, without a GPU.

export const HUES = [
  "#3b82d0", "#e08a00", "#0aa37a", "#d9558f", "#56b4e9", "#b08d00", "#d0541b", "#7a5195",
]; // after Okabe and Ito: distinct for the colour-blind, on light and dark
const MASK_STEPS = 4;
const masks = new Map();

/** The colour and the shape of the n-th group: eight hues, then the same hues with another shape. */
export const hue = (n) => HUES[n % HUES.length];
export const shape = (n) => Math.floor(n / HUES.length) % 4;

export const channels = (colour) => {
  const value = Number.parseInt(colour.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
};

let probe;

/** A CSS colour as #rrggbb. */
export function hex(colour) {
  probe ??= Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  probe.fillStyle = colour;
  probe.fillRect(0, 0, 1, 1);
  const { data } = probe.getImageData(0, 0, 1, 1);
  return `#${[...data.slice(0, 3)].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** How much of each pixel a shape covers: triples of dx, dy and coverage (up to 256). */
function mask(kind, radius) {
  const name = kind * 1000 + radius;
  if (masks.has(name)) return masks.get(name);
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
  masks.set(name, { marks: Int16Array.from(found), reach });
  return masks.get(name);
}

/**
 * Draws points into `pixels`, an image of `wide` x `high`, over the colour `paper`. `place` has x, y and strength
 * (0: hidden) of each in CSS pixels, `codes` the index of its colour; `ratio` is device pixels per CSS pixel.
 */
export function stamp(pixels, wide, high, { ratio, place, codes, colours, radius, paper }) {
  const [red, green, blue] = channels(paper);
  pixels.fill((0xff000000 | (blue << 16) | (green << 8) | red) >>> 0);
  const shapes = [0, 1, 2, 3].map((kind) => mask(kind, radius * ratio));
  const parts = colours.map(channels); // red and blue are blended in one operation, green separately
  const [rb, g] = [parts.map(([r, , b]) => r | (b << 16)), parts.map(([, middle]) => middle << 8)];
  for (let n = 0; n < place.length / 3; n++) {
    const strength = place[n * 3 + 2];
    if (!strength) continue;
    const code = codes[n];
    const { marks, reach } = shapes[shape(code)];
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
        0xff000000 | ((((was & 0xff00ff) * b + srb * a) >>> 8) & 0xff00ff) | ((((was & 0x00ff00) * b + sg * a) >>> 8) & 0x00ff00);
    }
  }
}

/** A canvas with the points; `stamp` has the rest of the arguments. */
export class Raster {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d");
  }

  draw({ width, height, ...marks }) {
    const [wide, high] = [Math.round(width * marks.ratio), Math.round(height * marks.ratio)];
    const { canvas, context } = this;
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    if (this.image?.width !== wide || this.image.height !== high) this.image = context.createImageData(wide, high);
    stamp(new Uint32Array(this.image.data.buffer), wide, high, marks);
    context.putImageData(this.image, 0, 0);
    return canvas;
  }
}
