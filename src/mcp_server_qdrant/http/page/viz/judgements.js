// Thumbs given in the page, kept for this tab, and their export for `mcp-server-qdrant eval`.

import { key } from "./dom.js";
import { named, state } from "./state.js";

const KEY = "viz-judged";

/** One entry per query and collections: { query, collections, given: { key: [id, 1 or 0] } }. */
let entries = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");

const entry = () => entries.find((one) => one.query === state.route.q && String(one.collections) === String(named()));

/** The judgements of the search: key of a text -> 1 (answers it) or 0. */
export const judged = () => Object.fromEntries(Object.entries(entry()?.given ?? {}).map(([name, [, grade]]) => [name, grade]));

/** Judges a result; the same thumb again takes it back. */
export function judge(text, grade) {
  if (!entry()) entries.push({ query: state.route.q, collections: named(), given: {} });
  const { given } = entry();
  if (given[key(text)]?.[1] === grade) delete given[key(text)];
  else given[key(text)] = [text.id, grade];
  keep(entries.filter((one) => Object.keys(one.given).length));
}

export const forget = () => keep([]);

function keep(all) {
  entries = all;
  sessionStorage.setItem(KEY, JSON.stringify(entries));
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
