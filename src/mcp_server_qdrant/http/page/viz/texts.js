// The list of texts, filtered (also by the query) and sorted by the server.

import { call } from "./api.js";
import { $, announce, button, clip, h, key, plural, redraw, there } from "./dom.js";
import { swatch } from "./points.js";
import { choosing, chosen, colour, known, named, state } from "./state.js";

const COLUMNS = { title: "Title", collection: "Collection", tags: "Tags", source: "Source", date: "Date" };
const FILTERS = ["since", "until", "source"];
let turn; // the latest request

/** Lists the texts for the address, from an offset on. `on`: open(text), visit(change), failed(error, again). */
export async function showTexts(on, start = 0) {
  const { since, until, source, sort, q: query, tag: tags } = state.route;
  const mine = (turn = Symbol("asked"));
  showSieve(on);
  $("#texts").setAttribute("aria-busy", "true");
  try {
    if (!chosen().length) throw new Error("Choose at least one collection.");
    const { results, more, sorted } = await call("list", { collections: named(), tags, since, until, source, sort, query, start });
    if (turn !== mine) return;
    const rows = start ? [...state.list.rows, ...results] : results;
    state.list = { rows, total: rows.length + more, sorted };
    drawTexts(on);
  } catch (error) {
    if (turn !== mine) return;
    state.list = { rows: [], total: 0, sorted: 0 };
    $("#texts-list").replaceChildren(h("p", { class: "empty" }, "The texts could not be listed."));
    on.failed(error, () => showTexts(on, start));
  } finally {
    if (turn === mine) $("#texts").setAttribute("aria-busy", "false");
  }
}

function showSieve({ visit }) {
  const { route } = state;
  const [now, [tag = ""]] = [chosen(), route.tag];
  const one = now.length === 1 && known().length > 1 ? now[0] : "";
  const tags = [...new Set([...route.tag, ...now.flatMap((name) => state.tags[name] ?? [])])].sort();
  const field = (label, element) => h("label", {}, h("span", {}, label), element);
  const select = (id, first, names, value, act) => {
    const options = [["", first], ...names.map((name) => [name, name])].map(([name, label]) => h("option", { value: name, selected: name === value }, label));
    return h("select", { id, onchange: ({ target }) => visit(act(target.value)) }, options);
  };
  const input = (name, properties) => h("input", { id: `by-${name}`, value: route[name] ?? "", onchange: ({ target }) => visit({ [name]: target.value.trim() }), ...properties });
  const all = now.length > 1 && now.length < known().length ? `${now.length} collections` : "all";
  $("#sieve").onsubmit = (event) => event.preventDefault();
  redraw(
    $("#sieve"),
    field("Collection", select("by-collection", all, known(), one, (name) => choosing(name ? [name] : known()))),
    field("Tag", select("by-tag", "any", tags, tag, (value) => ({ tag: value ? [value] : [] }))),
    field("From", input("since", { type: "date" })),
    field("Until", input("until", { type: "date" })),
    field("Source", input("source", { type: "text", placeholder: "part of a path or address" })),
  );
}

/** Draws the current rows, without deleted texts. */
export function drawTexts(on) {
  const { q: query, sort = "", tag } = state.route;
  const { rows: all, total: every, sorted } = state.list;
  const rows = all.filter(there);
  const total = every - (all.length - rows.length);
  const [column, down] = [sort.replace("-", ""), sort.startsWith("-")];
  const count = `${rows.length < total ? `${rows.length} of ` : ""}${plural(total, "text")}${query ? ` for “${clip(query, 40)}”` : ""}`;
  const newest = sorted < total ? `, of the newest ${sorted.toLocaleString("en")}` : "";
  const order = column ? `by ${COLUMNS[column].toLowerCase()}${newest}` : query ? "the best first" : "the newest first";
  $("#texts-about").textContent = `${count}, ${order}.`;
  announce(count);
  if (!rows.length) {
    const filtered = tag.length || query || FILTERS.some((name) => state.route[name]);
    const sentence = filtered ? "No text matches: remove the query, a tag, a date or the source." : "There are no texts in the chosen collections.";
    $("#texts-list").replaceChildren(h("p", { class: "empty" }, sentence));
    return;
  }
  const head = ([name, label]) => {
    const [order, sign, next] = name !== column ? ["none", "", name] : down ? ["descending", " ↓", ""] : ["ascending", " ↑", `-${name}`];
    const act = button([label, h("span", { "aria-hidden": "true" }, sign)], () => on.visit({ sort: next }), { class: "link", id: `sort-${name}` });
    return h("th", { scope: "col", "aria-sort": order }, act);
  };
  const copies = new Map();
  for (const { text } of rows) copies.set(text, (copies.get(text) ?? 0) + 1);
  redraw(
    $("#texts-list"),
    h("table", { class: "stacked" }, h("caption", { class: "sr" }, "Texts"), h("thead", {}, h("tr", {}, Object.entries(COLUMNS).map(head))), h("tbody", {}, rows.map((one) => row(one, copies.get(one.text), on)))),
    all.length < Math.min(every, state.setup.most) ? button("Show more", () => showTexts(on, all.length), { class: "more", id: "more-texts" }) : "",
    rows.length < total && all.length >= state.setup.most ? h("p", { class: "hint" }, "The list ends here: use a query or a filter to see others.") : "",
  );
}

function row(one, copies, on) {
  const badge = (text, title) => h("span", { class: "badge", title }, text);
  const cell = (name, ...shown) => h("td", { dataset: { label: COLUMNS[name] }, class: name, title: name === "source" ? (one.source ?? "") : null }, shown);
  const named = [
    button(clip(one.title || one.text || one.id, 110), () => on.open(one), { class: "open", dir: "auto" }),
    one.superseded_by && badge("superseded", "A newer text replaces this one"),
    copies > 1 && badge(`${copies} alike`, "Texts in this list with the same beginning"),
    one.title && h("p", { class: "where beginning", dir: "auto" }, one.text),
  ];
  const cells = [cell("collection", swatch(colour(one.collection)), one.collection), cell("tags", (one.tags ?? []).join(", ")), cell("source", one.source ?? ""), cell("date", one.date ?? "")];
  return h("tr", { class: one.superseded_by ? "superseded" : "", dataset: { key: key(one), collection: one.collection } }, h("td", {}, named), cells);
}
