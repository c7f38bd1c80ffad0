// The names of regions on a map: which of them are shown, and where.

const WORDS = 2; // of a name
const [GAP, LINE] = [8, 18]; // pixels
const ENOUGH = 500; // points that tell the middle of a region

/** A region is one of so many. */
const among = (region, count) => region.born <= count && (!region.split || count < region.split);

/** So many regions that share all points, the largest first; fewer where there are no more. */
export function largest({ regions }, count) {
  const most = Math.max(0, ...regions.map((region) => region.born));
  return regions.filter((region) => region.words.length && among(region, Math.min(count, most)));
}

export const inside = (panel, region, point) =>
  panel.leaves[point] >= region.first && panel.leaves[point] < region.last;

/** The middle of each region in one of the layouts, as { at, beside }. */
export function middles(panel, layout) {
  const held = panel.regions.map(() => []);
  const owners = Array.from({ length: 256 }, () => []);
  panel.regions.forEach((region, place) => {
    for (let leaf = region.first; leaf < region.last; leaf++) owners[leaf].push(place);
  });
  for (let n = 0; n < panel.count; n++) for (const place of owners[panel.leaves[n]]) held[place].push(n);
  const axes = (values, step, axis, points) => median(points.map((n) => values[n * step + axis]));
  for (const [place, points] of held.entries()) {
    const step = Math.ceil(points.length / ENOUGH);
    held[place] = points.filter((_, n) => n % step === 0);
  }
  return held.map((points) => {
    const at = [0, 1, 2].map((axis) => axes(panel.xyz, 3, axis, points));
    return { at, beside: layout === "beside" ? [0, 1].map((axis) => axes(panel.second, 2, axis, points)) : null };
  });
}

function median(values) {
  const sorted = Float32Array.from(values).sort();
  return sorted[sorted.length >> 1] ?? 0;
}

/** The names that fit, the largest region first: { region, text, x, y, box }, none over another, or what is taken. */
export function placed(panel, wanted, spots, measure, taken, { width, height }) {
  const found = [];
  for (const region of largest(panel, wanted)) {
    const text = region.words.slice(0, WORDS).join(" ");
    const half = measure(text) / 2;
    const [x, y] = spots[panel.regions.indexOf(region)];
    const box = [x - half, y - LINE / 2, x + half, y + LINE / 2];
    if (box[0] < 4 || box[2] > width - 4 || box[1] < 4 || box[3] > height - 4) continue;
    const clear = (other) =>
      box[2] + GAP < other[0] || box[0] - GAP > other[2] || box[3] < other[1] || box[1] > other[3];
    if (taken.every(clear) && found.every((one) => clear(one.box))) found.push({ region, text, x, y, box });
  }
  return found;
}
