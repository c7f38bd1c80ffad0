// Names on a map: of a region at a point inside its own, of a point above it, as many as there is room for.

const [GAP, LINE, ABOVE] = [8, 18, 13]; // pixels

/** The names that fit, the first ones first: { region, text, x, y, box }, none over another, or what is taken. */
export function placed(regions, place, measure, taken, { width, height }) {
  const found = [];
  for (const region of regions) {
    const [x, middle, seen] = place.subarray(region.point * 3, region.point * 3 + 3);
    const y = middle - (region.words ? 0 : ABOVE);
    const half = measure(region.name) / 2;
    const box = [x - half, y - LINE / 2, x + half, y + LINE / 2];
    if (!seen || box[0] < 4 || box[2] > width - 4 || box[1] < 4 || box[3] > height - 4) continue;
    const clear = (other) =>
      box[2] + GAP < other[0] || box[0] - GAP > other[2] || box[3] < other[1] || box[1] > other[3];
    if ([...taken, ...found.map((one) => one.box)].every(clear)) found.push({ region, text: region.name, x, y, box });
  }
  return found;
}
