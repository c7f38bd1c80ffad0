// The texts of the collections as a list, filtered (by the query, too) and sorted by the server.

import { call } from "./api.js";
import { $, announce, clip, h, key, plural, there } from "./dom.js";
import { swatch } from "./points.js";

const FIELDS = ["since", "until", "source", "sort"];
const COLUMNS = { title: "Title", collection: "Collection", tags: "Tags", source: "Source", date: "Date" };

export class Texts {
  /** `on`: open(text), changed(), failed(error, again). */
  constructor(controls, colour, on) {
    this.controls = controls;
    this.colour = colour;
    this.on = on;
    this.asked = {};
    this.rows = [];
  }

  link() {
    return Object.fromEntries(FIELDS.filter((name) => this.asked[name]).map((name) => [name, this.asked[name]]));
  }

  follow(route) {
    this.asked = Object.fromEntries(FIELDS.filter((name) => route[name]).map((name) => [name, route[name]]));
  }

  wanted(query) {
    const { since, until, source, sort } = this.asked;
    return { collections: this.controls.named(), tags: [...this.controls.tags], since, until, source, sort, query };
  }

  /** Lists the texts, unless they stand there. */
  show(query) {
    this.query = query;
    this.showSieve();
    return this.load([]);
  }

  async load(seen) {
    const turn = (this.turn = Symbol("the last one asked for"));
    const list = $("#texts");
    list.setAttribute("aria-busy", "true");
    try {
      if (!this.controls.chosen.size) throw new Error("Choose at least one collection.");
      const answer = await call("list", { ...this.wanted(this.query), seen });
      if (turn !== this.turn) return;
      this.rows = seen.length ? [...this.rows, ...answer.results] : answer.results;
      this.total = this.rows.length + answer.more;
      this.sorted = answer.sorted;
      this.draw();
    } catch (error) {
      if (turn !== this.turn) return;
      this.rows = [];
      $("#texts-list").replaceChildren(h("p", { class: "empty" }, "The texts could not be listed."));
      this.on.failed(error, () => this.load(seen));
    } finally {
      if (turn === this.turn) list.setAttribute("aria-busy", "false");
    }
  }

  set(name, value) {
    this.asked[name] = value;
    this.on.changed();
  }

  showSieve() {
    const { controls } = this;
    const known = controls.known;
    const one = controls.chosen.size === 1 ? [...controls.chosen][0] : "";
    const option = (value, label, chosen) => h("option", { value, selected: value === chosen }, label);
    const tags = [...new Set([...controls.tags, ...known.filter((n) => controls.chosen.has(n)).flatMap((n) => controls.allTags?.[n] ?? [])])].sort();
    const tag = [...controls.tags][0] ?? "";
    const field = (label, element) => h("label", {}, h("span", {}, label), element);
    const select = (act, ...options) => {
      const element = h("select", { onchange: () => act(element.value) }, ...options);
      return element;
    };
    const day = (name) => {
      const input = h("input", { type: "date", value: this.asked[name] ?? "", onchange: () => this.set(name, input.value) });
      return input;
    };
    const source = h("input", {
      type: "text",
      value: this.asked.source ?? "",
      placeholder: "part of a path or address",
      onchange: () => this.set("source", source.value.trim()),
    });
    const several = controls.chosen.size > 1 && controls.chosen.size < known.length;
    $("#sieve").onsubmit = (event) => event.preventDefault();
    if ($("#sieve").contains(document.activeElement) && document.activeElement.type === "text") return;
    $("#sieve").replaceChildren(
      field(
        "Collection",
        select(
          (name) => {
            controls.chosen = new Set(name ? [name] : known);
            this.on.changed();
          },
          option("", several ? `${controls.chosen.size} collections` : "all", one),
          known.map((name) => option(name, name, one)),
        ),
      ),
      field(
        "Tag",
        select(
          (value) => {
            controls.tags = new Set(value ? [value] : []);
            this.on.changed();
          },
          option("", "any", tag),
          tags.map((value) => option(value, value, tag)),
        ),
      ),
      field("From", day("since")),
      field("Until", day("until")),
      field("Source", source),
    );
  }

  order() {
    const { sort = "" } = this.asked;
    return [sort.replace("-", ""), sort.startsWith("-")];
  }

  /** The rows that are shown. */
  shown() {
    return this.rows.filter(there);
  }

  draw() {
    const rows = this.shown();
    const total = this.total - (this.rows.length - rows.length);
    const about = `${rows.length < total ? `${rows.length} of ` : ""}${plural(total, "text")}${this.query ? ` for “${clip(this.query, 40)}”` : ""}`;
    const [column, down] = this.order();
    const order = column in COLUMNS ? `by ${COLUMNS[column].toLowerCase()}${this.sorted < total ? `, of the newest ${this.sorted.toLocaleString("en")}` : ""}` : this.query ? "the best first" : "the newest first";
    $("#texts-about").textContent = `${about}, ${order}.`;
    announce(about);
    if (!rows.length) {
      const filtered = Object.keys(this.link()).length || this.controls.tags.size || this.query;
      const sentence = filtered ? "No text fits: take away the query, a tag, a date or the source." : "There are no texts in the chosen collections.";
      $("#texts-list").replaceChildren(h("p", { class: "empty" }, sentence));
      return;
    }
    const head = Object.entries(COLUMNS).map(([name, label]) => {
      const next = name !== column ? name : down ? "" : `-${name}`;
      const sign = name === column ? (down ? " ↓" : " ↑") : "";
      return h(
        "th",
        { scope: "col", "aria-sort": name === column ? (down ? "descending" : "ascending") : "none" },
        h("button", { type: "button", class: "link", onclick: () => this.set("sort", next) }, label, h("span", { "aria-hidden": "true" }, sign)),
      );
    });
    const copies = new Map();
    for (const row of rows) copies.set(row.text, (copies.get(row.text) ?? 0) + 1);
    const more = h("button", { type: "button", class: "more", onclick: () => this.load(this.rows.map(({ id }) => id)) }, "Show more");
    $("#texts-list").replaceChildren(
      h("table", { class: "stacked" }, h("caption", { class: "sr" }, "Texts"), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => this.row(row, copies.get(row.text))))),
      rows.length < total ? more : "",
    );
  }

  row(one, copies) {
    const badge = (text, title) => h("span", { class: "badge", title }, text);
    return h(
      "tr",
      { class: one.superseded_by ? "superseded" : "", dataset: { key: key(one), collection: one.collection } },
      h(
        "td",
        {},
        h("button", { type: "button", class: "open", dir: "auto", onclick: () => this.on.open(one) }, clip(one.title || one.text || one.id, 110)),
        one.superseded_by ? badge("superseded", "A newer text stands for this one") : "",
        copies > 1 ? badge(`${copies} alike`, "Texts of this list that begin alike") : "",
        one.title ? h("p", { class: "where beginning", dir: "auto" }, one.text) : "",
      ),
      h("td", { dataset: { label: COLUMNS.collection } }, swatch(this.colour(one.collection)), one.collection),
      h("td", { dataset: { label: COLUMNS.tags } }, (one.tags ?? []).join(", ")),
      h("td", { dataset: { label: COLUMNS.source }, class: "source", title: one.source ?? "" }, one.source ?? ""),
      h("td", { dataset: { label: COLUMNS.date }, class: "number" }, one.date ?? ""),
    );
  }
}
