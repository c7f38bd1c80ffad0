// Thumbs given in the page, kept for this tab, and their export for `mcp-server-qdrant eval`.

import { key } from "./dom.js";

const KEY = "viz-judged";
const kept = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
};

/** One entry per query and collections: { query, collections, given: { key: [id, 1 or 0] } }. */
let entries = kept();

const same = (one, query, collections) =>
  one.query === query && JSON.stringify(one.collections) === JSON.stringify(collections);

/** The judgements of one search: key of a text -> 1 (answers it) or 0. */
export function judged(query, collections) {
  const { given } = entries.find((one) => same(one, query, collections)) ?? { given: {} };
  return Object.fromEntries(Object.entries(given).map(([name, [, grade]]) => [name, grade]));
}

/** Judges a result; the same thumb again takes it back. */
export function judge(query, collections, text, grade) {
  let entry = entries.find((one) => same(one, query, collections));
  if (!entry) entries.push((entry = { query, collections, given: {} }));
  if (entry.given[key(text)]?.[1] === grade) delete entry.given[key(text)];
  else entry.given[key(text)] = [text.id, grade];
  entries = entries.filter((one) => Object.keys(one.given).length);
  sessionStorage.setItem(KEY, JSON.stringify(entries));
}

export function clear() {
  entries = [];
  sessionStorage.removeItem(KEY);
}

export function count() {
  const grades = entries.flatMap((one) => Object.values(one.given).map(([, grade]) => grade));
  return { queries: entries.length, up: grades.filter(Boolean).length, all: grades.length };
}

/** What `mcp-server-qdrant eval --queries` reads: only queries that something answers. */
export function exported() {
  return entries
    .filter((one) => Object.values(one.given).some(([, grade]) => grade))
    .map(({ query, collections, given }) => ({ query, collections, expect: { ids: Object.fromEntries(Object.values(given)) } }));
}

/** Of these hits the share that was judged to answer the query; null where none was judged. */
export function precision(hits, given) {
  const grades = hits.map((hit) => given[key(hit)]).filter((grade) => grade !== undefined);
  return grades.length ? { right: grades.filter(Boolean).length, of: grades.length } : null;
}
