// The server's map, decoded: typed arrays of coordinates, and what is known of each point.

const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
const numbers = (base64, scale) => Float32Array.from(new Int16Array(bytes(base64).buffer), (value) => value * scale);

/** The map with the points of each panel in one array of x y z, `groupOf`, ids and titles in step. */
export const decode = (answer) => ({ ...answer, panels: answer.panels.map(panel) });

function panel(given) {
  const { axes, groups, ids, documents, titles, snippets } = given;
  const count = ids.length;
  const flat = numbers(given.xyz, given.scale);
  const xyz = new Float32Array(count * 3);
  for (let n = 0; n < count; n++) xyz.set(flat.subarray(n * axes, n * axes + axes), n * 3);
  const groupOf = Uint16Array.from(groups.flatMap((group, place) => Array(group.count).fill(place)));
  const about = (point) => ({
    id: ids[point],
    document: documents[point],
    collection: groups[groupOf[point]].collection,
    title: titles[point],
    snippet: snippets?.[point] ?? "",
  });
  const facets = given.facets.map((facet) => ({ ...facet, codes: bytes(facet.codes) }));
  const made = { ...given, count, xyz, groupOf, facets, about, neighbours: null, regions: [] };
  layOut(made, given);
  return made;
}

/** Gives a panel its layout by neighbours, if it is there: x and y of each point, the regions, each point's region. */
export function layOut(panel, { neighbours }) {
  if (!neighbours) return;
  panel.neighbours = { xy: numbers(neighbours.xy, neighbours.scale) };
  panel.regions = neighbours.regions;
  panel.regionOf = bytes(neighbours.region_of);
}

/** What two maps have in common when one search's places fit on the other's points. */
export const signature = ({ panels }) => JSON.stringify(panels.map(({ model, explained, groups }) => [model, explained, groups]));
