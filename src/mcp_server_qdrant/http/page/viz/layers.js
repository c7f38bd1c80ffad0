// The layers of a map, from the bottom: points, axes, names, rings, pins.
import { clip } from "./dom.js";
import { covered, disc, paintPins, pinned } from "./pins.js";

const REST_OPACITY = 0.4; // of points that are not results
const PALE = 0.35; // strength of a point without a colour
const MANY = 4000; // points from which they are drawn small
const [NAMED, FEW, TITLE] = [1.5, 120, 30]; // zoom from which points have titles, most points that have, characters
const [GAP, LINE, ABOVE] = [8, 18, 13]; // pixels around a name

export const opacity = (plot) => (plot.hits.length ? REST_OPACITY : 0.85);
export const radius = (count) => (count > MANY ? 2 : count > 800 ? 3 : 4.5);

export function paintAll(plot) {
  const { context, ratio, width, height, camera } = plot;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  paintPoints(plot);
  if (!camera.near) paintAxes(plot);
  const pins = pinned(plot);
  paintNames(plot, covered(pins));
  context.lineWidth = 2.5;
  context.strokeStyle = plot.accent;
  for (const point of plot.marked) {
    disc(context, plot.at(point), radius(plot.panel.count) + 5);
    context.stroke();
  }
  paintPins(plot, pins);
}

function paintPoints(plot) {
  const { camera, panel, place, lit, absent, codes, colours, hidden, moving, muted } = plot;
  const { groups, groupOf, count } = panel;
  const [known, full] = [colours.length, Math.round(256 * opacity(plot))];
  const shown = groups.map((group) => !hidden.has(group.collection));
  camera.project(place, (n, near) =>
    shown[groupOf[n]] && !absent?.has(n) // nearer points are stronger
      ? Math.min(256, (!lit ? full : lit[n] ? 230 : full * 0.25) * near * (codes[n] < known ? 1 : PALE))
      : 0,
  );
  const picture = plot.raster.draw({
    ...{ width: plot.width, height: plot.height, place, codes, paper: plot.surface },
    ratio: moving ? 1 : plot.ratio,
    colours: [...colours, muted],
    radius: radius(count),
  });
  plot.context.drawImage(picture, 0, 0, plot.width, plot.height);
}

function paintAxes({ context, camera, panel, line, muted, font, width }) {
  const { centre, half, solid } = camera;
  context.strokeStyle = line;
  context.fillStyle = muted;
  context.font = `11px ${font}`;
  context.lineWidth = 1;
  ["PC 1", "PC 2", "PC 3"].slice(0, solid ? 3 : 2).forEach((name, axis) => {
    const [from, to] = [-1, 1].map((side) => camera.screen(centre.map((value, n) => value + (n === axis ? side * half[n] * 1.04 : 0))));
    context.beginPath();
    context.moveTo(from[0], from[1]);
    context.lineTo(to[0], to[1]);
    context.stroke();
    const share = panel.explained[axis] ?? 0;
    context.textAlign = to[0] > width - 80 ? "right" : "left";
    const label = `${name} · ${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
    context.fillText(label, Math.min(to[0] + 4, width - 6), Math.max(to[1] - 6, 12));
  });
}

/** Names of regions (in the layout by neighbours), then titles of points, if there is room. */
function paintNames(plot, taken) {
  const { context, camera, panel, moving, canvas, font } = plot;
  const regions = camera.near ? panel.regions : [];
  context.font = `600 12px ${font}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 4;
  plot.labels = placed(plot, moving ? regions : [...regions, ...singles(plot)], taken);
  for (const { region, text, x, y } of plot.labels) {
    context.strokeStyle = plot.surface;
    context.font = `${region.words ? "600 12" : "11"}px ${font}`;
    context.fillStyle = region === plot.focus ? plot.accent : plot.ink;
    if (!moving) context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }
  context.textBaseline = "alphabetic";
  if (moving) return;
  canvas.dataset.regions = plot.labels.filter(({ region }) => region.words).length;
  canvas.dataset.zoom = camera.transform.k.toFixed(2);
  canvas.dataset.labels = JSON.stringify(plot.labels.map(({ text, x, y }) => ({ text, x, y })));
}

/** The names that fit, in order: { region, text, x, y, box }; none overlaps another or a box in `taken`. */
export function placed({ place, context, widths, width, height }, names, taken) {
  const found = [];
  for (const region of names) {
    const [x, middle, seen] = place.subarray(region.point * 3, region.point * 3 + 3);
    const y = middle - (region.words ? 0 : ABOVE);
    const half = (widths[region.name] ??= context.measureText(region.name).width) / 2;
    const box = [x - half, y - LINE / 2, x + half, y + LINE / 2];
    if (!seen || box[0] < 4 || box[2] > width - 4 || box[1] < 4 || box[3] > height - 4) continue;
    const clear = (other) =>
      box[2] + GAP < other[0] || box[0] - GAP > other[2] || box[3] < other[1] || box[1] > other[3];
    if ([...taken, ...found.map((one) => one.box)].every(clear)) found.push({ region, text: region.name, x, y, box });
  }
  return found;
}

/** The titles of the points, if few are visible. */
function singles(plot) {
  const { place, panel, width, height } = plot;
  if (plot.camera.transform.k < NAMED) return [];
  const seen = plot.all((n) => place[n * 3 + 2] && place[n * 3] > 0 && place[n * 3] < width && place[n * 3 + 1] > 0 && place[n * 3 + 1] < height);
  if (seen.length > FEW) return [];
  const named = new Map(seen.map((point) => [panel.titles[point], point]));
  return [...named].filter(([title]) => title).map(([title, point]) => ({ name: clip(title, TITLE), point }));
}
