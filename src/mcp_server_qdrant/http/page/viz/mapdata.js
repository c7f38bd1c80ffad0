// The server's map, decoded: typed arrays of coordinates, ids only when asked for.

/** The characters of a point's id by which tools know its text; a number is short as it is. */
const short = (id) => (id.includes("-") ? id.slice(0, 11) : id);

const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** The map with each panel's points in one array of x y z, `groupOf` and titles in step. */
export function decode(answer) {
  return { ...answer, panels: answer.panels.map(panel) };
}

function panel(given) {
  const count = given.groups.reduce((sum, group) => sum + group.count, 0);
  const xyz = new Float32Array(count * 3);
  const groupOf = new Uint16Array(count);
  let next = 0;
  given.groups.forEach((group, place) => {
    const raw = bytes(group.xyz);
    const view = new DataView(raw.buffer);
    for (let n = 0; n < group.count; n++) {
      for (let axis = 0; axis < given.axes; axis++) {
        xyz[(next + n) * 3 + axis] = view.getInt16((n * given.axes + axis) * 2, true) * given.scale;
      }
      groupOf[next + n] = place;
    }
    next += group.count;
  });
  const made = {
    model: given.model,
    explained: given.explained,
    groups: given.groups.map(({ collection, total, count: drawn }) => ({ collection, total, count: drawn })),
    count,
    xyz,
    groupOf,
    facets: given.facets.map((facet) => ({ ...facet, codes: bytes(facet.codes) })),
    neighbours: null,
    regions: [],
    ids: [],
    documents: [],
    titles: [],
    snippets: [],
    collectionOf: (point) => given.groups[groupOf[point]].collection,
    idOf: (point) => made.ids[point] ?? "",
    about: (point) => ({
      id: made.idOf(point),
      document: made.documents[point] || short(made.idOf(point)),
      collection: made.collectionOf(point),
      title: made.titles[point],
      snippet: made.snippets[point],
    }),
  };
  layOut(made, given);
  if (given.groups[0]?.ids) name(made, given);
  return made;
}

/** Gives a panel its layout by neighbours, if it is there: x and y of each point, the regions, each point's region. */
export function layOut(panel, { neighbours }) {
  if (!neighbours) return;
  const view = new DataView(bytes(neighbours.xy).buffer);
  panel.neighbours = { xy: Float32Array.from({ length: panel.count * 2 }, (_, n) => view.getInt16(n * 2, true) * neighbours.scale) };
  panel.regions = neighbours.regions;
  panel.regionOf = bytes(neighbours.region_of);
}

/** Gives the next points of a panel their ids and titles, which may travel behind them. */
export function name(panel, { groups }) {
  for (const { ids, id_kind: kind, documents, titles, snippets } of groups) {
    const raw = kind === "mixed" ? null : bytes(ids);
    titles.forEach((title, n) => {
      panel.ids.push(raw ? readable(raw.subarray(n * 16, n * 16 + 16), kind) : ids[n]);
      panel.documents.push(documents[n]);
      panel.titles.push(title);
      panel.snippets.push(snippets?.[n] ?? null);
    });
  }
}

function readable(sixteen, kind) {
  const hex = [...sixteen].map((one) => one.toString(16).padStart(2, "0")).join("");
  if (kind === "int") return BigInt(`0x${hex}`).toString();
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** What two maps have in common when one search's places fit on the other's points. */
export const signature = (map) =>
  JSON.stringify(map.panels.map((one) => [one.model, one.explained, one.groups.map(({ collection, total, count }) => [collection, total, count])]));
