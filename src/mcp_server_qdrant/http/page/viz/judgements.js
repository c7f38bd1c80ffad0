// Thumbs given in the page, kept for this tab, and their export for `mcp-server-qdrant eval`.

const KEY = "viz-judgements";
const kept = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
};

/** One entry per query and collections: { query, collections, ids: { id: 1 or 0 } }. */
let entries = kept();

const same = (one, query, collections) =>
  one.query === query && JSON.stringify(one.collections) === JSON.stringify(collections);

/** The judgements of one search: id -> 1 (answers it) or 0. */
export function judged(query, collections) {
  return entries.find((one) => same(one, query, collections))?.ids ?? {};
}

/** Judges a result; the same thumb again takes it back. */
export function judge(query, collections, id, grade) {
  let entry = entries.find((one) => same(one, query, collections));
  if (!entry) entries.push((entry = { query, collections, ids: {} }));
  if (entry.ids[id] === grade) delete entry.ids[id];
  else entry.ids[id] = grade;
  entries = entries.filter((one) => Object.keys(one.ids).length);
  sessionStorage.setItem(KEY, JSON.stringify(entries));
}

export function clear() {
  entries = [];
  sessionStorage.removeItem(KEY);
}

export function count() {
  const grades = entries.flatMap((one) => Object.values(one.ids));
  return { queries: entries.length, up: grades.filter(Boolean).length, all: grades.length };
}

/** What `mcp-server-qdrant eval --queries` reads: only queries that something answers. */
export function exported() {
  return entries
    .filter((one) => Object.values(one.ids).some(Boolean))
    .map(({ query, collections, ids }) => ({ query, collections, expect: { ids } }));
}

/** Of these hits the share that was judged to answer the query; null where none was judged. */
export function precision(hits, ids) {
  const grades = hits.map((hit) => ids[hit.id]).filter((grade) => grade !== undefined);
  return grades.length ? { right: grades.filter(Boolean).length, of: grades.length } : null;
}
