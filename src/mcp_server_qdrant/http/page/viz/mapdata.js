// The server's map, decoded: typed arrays of coordinates, ids only when asked for.

const bytes = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** The map with each panel's points in one array of x y z, `groupOf` and titles in step. */
export function decode(answer) {
  return { ...answer, panels: answer.panels.map(panel) };
}

function panel(given) {
  const count = given.groups.reduce((sum, group) => sum + group.count, 0);
  const xyz = new Float32Array(count * 3);
  const groupOf = new Uint16Array(count);
  const titles = [];
  const snippets = [];
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
    for (let n = 0; n < group.count; n++) {
      titles.push(group.titles[n]);
      snippets.push(group.snippets?.[n] ?? null);
    }
    next += group.count;
  });
  const starts = [];
  given.groups.reduce((sum, group) => (starts.push(sum), sum + group.count), 0);
  const raw = given.groups.map((group) => (group.id_kind === "mixed" ? null : bytes(group.ids)));
  return {
    model: given.model,
    explained: given.explained,
    groups: given.groups.map(({ collection, total, count: drawn }) => ({
      collection,
      total,
      count: drawn,
    })),
    count,
    xyz,
    groupOf,
    titles,
    snippets,
    collectionOf: (point) => given.groups[groupOf[point]].collection,
    idOf(point) {
      const place = groupOf[point];
      const group = given.groups[place];
      const within = point - starts[place];
      if (group.id_kind === "mixed") return String(group.ids[within]);
      return readable(raw[place].subarray(within * 16, within * 16 + 16), group.id_kind);
    },
  };
}

function readable(sixteen, kind) {
  const hex = [...sixteen].map((one) => one.toString(16).padStart(2, "0")).join("");
  if (kind === "int") return BigInt(`0x${hex}`).toString();
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** What two maps have in common when one search's places fit on the other's points. */
export const signature = (map) =>
  JSON.stringify(
    map.panels.map((one) => [
      one.model,
      one.explained,
      one.groups.map(({ collection, total, count }) => [collection, total, count]),
    ]),
  );
