// Thumbs on results, kept for this tab, and their export for `mcp-server-qdrant eval`.

import { $, button, download, h, key, plural } from "./dom.js";
import { named, state } from "./state.js";

const KEY = "viz-judged";

/** One entry per query and collections: { query, collections, given: { key: [id, 1 or 0] } }. */
let entries = JSON.parse(globalThis.sessionStorage?.getItem(KEY) ?? "[]");

const entry = () => entries.find((one) => one.query === state.route.q && String(one.collections) === String(named()));

/** The judgements of the search: key of a text -> 1 (answers it) or 0. */
export const judged = () => Object.fromEntries(Object.entries(entry()?.given ?? {}).map(([name, [, grade]]) => [name, grade]));

/** Judges a result; the same thumb again removes it. */
export function judge(text, grade) {
  if (!entry()) entries.push({ query: state.route.q, collections: named(), given: {} });
  const { given } = entry();
  if (given[key(text)]?.[1] === grade) delete given[key(text)];
  else given[key(text)] = [text.id, grade];
  keep(entries.filter((one) => Object.keys(one.given).length));
}

function keep(all) {
  entries = all;
  sessionStorage.setItem(KEY, JSON.stringify(entries));
}

/** The labelled queries for `mcp-server-qdrant eval --queries`: those with a thumb up. */
export const exported = (all) =>
  all
    .filter(({ given }) => Object.values(given).some(([, grade]) => grade))
    .map(({ query, collections, given }) => ({ query, collections, expect: { ids: Object.fromEntries(Object.values(given)) } }));

/** Shows below the results the number of judgements and the export; `changed()` is called if all are cleared. */
export function showJudgements(changed) {
  const grades = entries.flatMap(({ given }) => Object.values(given));
  const ready = exported(entries);
  const save = () => download(new Blob([JSON.stringify(ready, null, 1)], { type: "application/json" }), "queries.json");
  const forget = () => {
    keep([]);
    changed();
  };
  $("#judgements").hidden = !grades.length;
  $("#judgements").replaceChildren(
    h("p", {}, `${grades.length} judged for ${plural(entries.length, "query", "queries")}${ready.length < entries.length ? "; those without a thumb up are not exported" : ""}.`),
    button("Export for mcp-server-qdrant eval", save, { disabled: !ready.length }),
    button("Forget them", forget, { class: "link" }),
  );
}
