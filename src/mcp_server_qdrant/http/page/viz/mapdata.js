// Decodes the server's map: typed arrays of coordinates, and the properties of each point.

const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
const numbers = (base64, scale) => Float32Array.from(new Int16Array(bytes(base64).buffer), (value) => value * scale);

/** The map with the points of each panel in one array of x y z, `groupOf`, ids and titles in the same order. */
export const decode = (answer) => ({ ...answer, panels: answer.panels.map(panel) });

function panel(given) {
  const { groups, ids, documents, titles, snippets, neighbours } = given;
  const groupOf = Uint16Array.from(groups.flatMap((group, place) => Array(group.count).fill(place)));
  const about = (point) => ({
    id: ids[point],
    document: documents[point],
    collection: groups[groupOf[point]].collection,
    title: titles[point],
    snippet: snippets?.[point] ?? "",
  });
  const facets = given.facets.map((facet) => ({ ...facet, codes: bytes(facet.codes) }));
  const flat = neighbours && numbers(neighbours.xy, neighbours.scale);
  const laid = neighbours && { // x y z of each point, the regions, each point's region
    neighbours: Float32Array.from({ length: ids.length * 3 }, (_, n) => (n % 3 < 2 ? flat[Math.floor(n / 3) * 2 + (n % 3)] : 0)),
    regions: neighbours.regions,
    regionOf: bytes(neighbours.region_of),
  };
  return { ...given, count: ids.length, xyz: numbers(given.xyz, given.scale), groupOf, facets, about, regions: [], ...laid };
}

/** Equal for two maps if the positions of one's search fit the other's points. */
export const signature = ({ panels }) => JSON.stringify(panels.map(({ model, explained, groups }) => [model, explained, groups]));
