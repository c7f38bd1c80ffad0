// The same search by every algorithm, a column of ranks for each; and the judgements given in the page.

import { call } from "./api.js";
import { $, button, clip, download, fixed, h, key, percent, plural, sized } from "./dom.js";
import { count, exported, forget, judged } from "./judgements.js";
import { asked, colour, state } from "./state.js";

const ALGORITHMS = ["hybrid", "semantic", "keyword"];
const SHOWN = 10; // ranks of each

/** What each algorithm finds: { algorithm, results, ms } or { algorithm, results: [], error }. */
export async function compare() {
  const wanted = asked();
  const found = [];
  for (const algorithm of ["hybrid", ...ALGORITHMS]) { // first once, so that none pays for what the others find in the caches
    const start = performance.now();
    const { results } = await call("search", { ...wanted, algorithm }).catch((error) => ({ results: error }));
    if (results instanceof Error) found.push({ algorithm, results: [], error: results });
    else found.push({ algorithm, results, ms: performance.now() - start });
  }
  if (found.every(({ error }) => error)) throw found[0].error;
  return found.slice(1);
}

/** `on`: open(text), judged(). */
export function showComparison(on) {
  const rows = state.comparison;
  $("#judgements").replaceChildren(...judgements(on.judged));
  if (!rows) return $("#comparison").replaceChildren(h("p", { class: "hint" }, "Press Compare to run all three."));
  const many = new Map();
  for (const { results } of rows) for (const one of results) many.set(key(one), (many.get(key(one)) ?? 0) + 1);
  const holder = h("div", { class: "ranks", tabIndex: 0, role: "group", "aria-label": "Ranks by each algorithm" });
  const light = (name) => () => {
    for (const one of holder.querySelectorAll("li")) one.classList.toggle("lit", one.dataset.key === name);
  };
  const cell = (one, place) => {
    const name = one.title || one.id;
    return h(
      "li",
      { class: many.get(key(one)) === 1 ? "alone" : "", dataset: { key: key(one) }, onpointerenter: light(key(one)), onpointerleave: light(), onfocusin: light(key(one)) },
      sized(h("span", { class: "rank" }, place + 1), "--colour", colour(one.collection)),
      button(clip(name, 60), () => on.open(one), { class: "open", dir: "auto", title: `${name}, relevance ${fixed(one.relevance)}` }),
      many.get(key(one)) === 1 && h("span", { class: "badge", title: "No other algorithm finds it" }, "only here"),
    );
  };
  const column = (row) => h("div", { class: "column" }, h("h3", {}, row.algorithm), figures(row, rows[0]), h("ol", {}, row.results.slice(0, SHOWN).map(cell)));
  holder.append(...rows.map(column));
  $("#comparison").replaceChildren(holder);
}

/** Its time, what it has in common with the first, and of its results with a thumb those with a thumb up. */
function figures({ results, ms, error }, first) {
  if (error) return h("p", { class: "hint" }, error.message);
  const known = new Set(first.results.map(key));
  const grades = results.map((one) => judged()[key(one)]).filter((grade) => grade !== undefined);
  const said = [plural(results.length, "result"), `${Math.round(ms)} ms`];
  if (results.length) said.push(`${percent(results.filter((one) => known.has(key(one))).length / results.length)} in common with hybrid`);
  if (grades.length) said.push(`precision ${percent(grades.filter(Boolean).length / grades.length)} of ${grades.length}`);
  return h("p", { class: "hint" }, said.join(", "));
}

/** How much was judged, with its export. */
function judgements(changed) {
  const { queries, up, all } = count();
  if (!all) return [h("p", { class: "hint" }, "No thumbs given yet.")];
  const ready = exported();
  const said =
    `${all} judged (${up} up) for ${queries === 1 ? "one query" : `${queries} queries`}.` +
    (ready.length < queries ? " Queries without a thumb up are left out of the export." : "");
  const save = () => download(new Blob([JSON.stringify(ready, null, 1)], { type: "application/json" }), "queries.json");
  const drop = () => {
    forget();
    changed();
  };
  return [h("p", {}, said), button("Export for mcp-server-qdrant eval", save, { disabled: !ready.length }), button("Forget them", drop, { class: "link" })];
}
