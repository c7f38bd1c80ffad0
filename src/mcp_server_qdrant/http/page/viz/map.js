// The card with the map: its panels, what is pointed at, the same points as a table.

import { call } from "./api.js";
import { segmented } from "./controls.js";
import { $, announce, clip, download, fixed, h, key, percent, plural, sized, there } from "./dom.js";
import { decode, layOut, name, signature } from "./mapdata.js";
import { Plot } from "./plot.js";
import { hue } from "./raster.js";

const PAGE = 100; // rows of the table at a time
const EXCERPT_DELAY = 150; // ms of pointing before a text is asked for
const NAMED = 2000; // points up to which their names travel with them
const SOON = 10000; // points above which a smaller map is shown first
const LOOK = 3000; // points of it
const LAID = 1500; // ms between two questions for the second layout
const SHOWN = 6; // documents of a region
const LISTED = 9; // regions
const LONGEST = 56; // of a title: the map has no more than 60 characters
const MOST_IDS = 5000; // that a search is kept to

export class MapCard {
  /** `on`: open(point), point(hit or null), search(query), within(ids or null), viewed(); `colour(collection)`. */
  constructor(colour, on) {
    this.colour = colour;
    this.on = on;
    this.plots = [];
    this.map = null;
    this.placed = { hits: [], queries: [] };
    this.view = "map";
    this.layout = "neighbours";
    this.hidden = new Set();
    this.region = $("#map-notes").parentNode.insertBefore(
      h("section", { class: "region", "aria-label": "Region", hidden: true }),
      $("#map-notes"),
    );
    this.colouring = h("select", { class: "colouring", "aria-label": "Colour by", onchange: () => {
      this.wanted.colour = "";
      this.recolour();
    } });
    $("#layout").before(this.colouring);
    segmented($("#layout"), "layout", { neighbours: "Neighbours", pca: "PCA", "3-D": "3-D" }, "neighbours", (value) => this.arrange(value));
    this.wanted = {};
    this.open = null; // the name of the region that is
    this.regions = h("ul", { class: "chips", "aria-label": "Regions", hidden: true });
    this.region.before(this.regions);
    this.region.addEventListener("keydown", ({ key }) => key === "Escape" && $(".close-region", this.region).click());
    this.texts = new Map();
    segmented($("#views"), "view", { map: "Map", table: "Table" }, "map", (value) => {
      this.view = value;
      this.showView();
    });
    const button = (label, name, act) =>
      h("button", { type: "button", "aria-label": name, title: name, onclick: act }, label);
    this.lasso = button("Lasso", "Draw around points (or drag with Shift)", ({ detail }) => {
      const on = this.lasso.getAttribute("aria-pressed") === "false";
      this.lasso.setAttribute("aria-pressed", String(on));
      for (const plot of this.plots) plot.lassoing = on;
      if (!on || detail || !this.plots.length) return; // a mouse draws, a key gets a circle
      this.plots[0].circle();
      announce("Arrow keys move the circle, plus and minus change its size, Enter takes what lies inside, Escape ends.");
    });
    this.lasso.setAttribute("aria-pressed", "false");
    $("#zoom").replaceChildren(
      this.lasso,
      button("−", "Zoom out", () => this.plots.forEach((plot) => plot.scaleBy(1 / 1.4))),
      button("+", "Zoom in", () => this.plots.forEach((plot) => plot.scaleBy(1.4))),
      button("⟲", "Show everything again", () => this.whole()),
      button("Save", "Save the map as a picture", () => this.save()),
    );
    document.addEventListener("theme", () => this.plots.forEach((plot) => plot.restyle()));
  }

  /** What an address holds of the map. */
  link() {
    const { layout, colouring, open, plots, wanted } = this;
    const other = layout === "neighbours" ? "" : layout;
    return plots.length ? { layout: other, colour: colouring.value || wanted.colour, region: open ?? wanted.region, at: plots[0].view } : { ...wanted, layout: other };
  }

  /** Shows what an address names, now or as soon as it is there. */
  follow({ layout = "neighbours", colour = "", region = "", at = "" }) {
    this.wanted = { layout, colour, region, at };
    if (!this.plots.length) return void (this.layout = layout);
    if (layout !== this.layout) this.arrange(layout);
    if (colour !== this.colouring.value) this.showColouring(), this.recolour();
    if (at !== this.plots[0].view) at ? (this.plots[0].view = at) : this.whole();
    if (region !== (this.open ?? "")) region ? this.showWanted() : $(".close-region", this.region)?.click();
  }

  arrange(layout) {
    this.layout = layout;
    for (const plot of this.plots) plot.arrange(layout);
    this.showLayouts();
    this.showVariance();
  }

  /** The region that the address names. */
  showWanted() {
    for (const plot of this.plots) {
      const region = plot.panel.regions.find((one) => one.name === this.wanted.region);
      if (region && this.open !== region.name) this.showChosen(plot, plot.within(region), region.words, region);
    }
  }

  busy(busy) {
    $("#map").setAttribute("aria-busy", String(busy));
  }

  /** Draws the collections anew, with the search on them if there is one. */
  async load(collections, points, search, signal, drawn = this.drawn) {
    this.drawn = drawn; // of the points, as many as there are
    this.busy(true);
    clearTimeout(this.polling);
    try {
      this.searched = search;
      if (drawn > SOON) await this.read(collections, LOOK, signal, "look");
      await this.read(collections, points, signal);
    } finally {
      this.busy(false);
    }
  }

  async read(collections, points, signal, parts = this.drawn > NAMED ? "points" : "all") {
    const answer = await call("map", { collections, points, search: this.searched, parts }, signal);
    this.asked = { collections, points };
    this.show(decode(answer));
    if (parts !== "all") this.names(this.map, signal);
    if (answer.coming) this.await(this.map);
  }

  /** Titles and ids of a large map come behind its points, many at a time. */
  async names(map, signal) {
    const named = () => Math.max(...map.panels.map(({ ids }) => ids.length));
    try {
      for (let start = 0; map.panels.some(({ count }) => count > start); start = named()) {
        const answer = await call("map", { ...this.asked, parts: "names", start }, signal);
        if (this.map !== map || signature(answer) !== signature(map)) return;
        answer.panels.forEach((panel, place) => name(map.panels[place], panel));
        this.drop();
        this.mark(this.marked);
        if (named() <= start) return;
      }
    } catch {
      // A search or the next map asks again; a click on a point without a title does nothing.
    }
  }

  /** Asks for the second layout until it is there, and moves over. */
  await(map) {
    this.polling = setTimeout(async () => {
      if (this.map !== map) return;
      const answer = await call("map", { ...this.asked, parts: "layout" }).catch(() => null);
      if (this.map !== map) return;
      if (!answer || answer.coming) return this.await(map);
      map.coming = false;
      answer.panels.forEach((panel, place) => layOut(map.panels[place], panel));
      this.notes = answer.notes;
      for (const plot of this.plots) {
        plot.lay();
        plot.arrange(this.layout);
        this.aim(plot);
      }
      announce("The map has moved: what is alike now lies near.");
      if (this.searched) this.place(this.searched);
      this.showLayouts();
      this.showRegions();
      this.showVariance();
    }, LAID);
  }

  /** The second layout has its place while it is made, and where it cannot be it has none. */
  showLayouts() {
    const there = this.map.panels.some((panel) => panel.second);
    const choice = $("#layout input");
    choice.disabled = !there;
    choice.parentNode.hidden = !there && !this.map.coming;
    choice.nextSibling.textContent = there || !this.map.coming ? "Neighbours" : "Neighbours…";
    choice.parentNode.title = there ? "" : "This layout is being made: near will mean alike";
    const shown = this.layout === "neighbours" && !there ? "pca" : this.layout;
    $(`#layout input[value="${shown}"]`).checked = true;
  }

  /** By collection, or by what their payloads have in common. */
  recolour() {
    const name = this.colouring.value;
    this.plots.forEach((plot, place) => {
      const { panel } = plot;
      const facet = panel.facets.find((one) => one.key === name);
      const colours = facet
        ? facet.values.map((_, n) => hue(n))
        : panel.groups.map((group) => this.colour(group.collection));
      plot.paintBy(facet?.codes ?? panel.groupOf, colours);
      const figure = $("#panels").children[place];
      figure.querySelector(".values")?.remove();
      $(".key", figure).hidden = Boolean(facet);
      if (facet) {
        const keys = facet.values.map((value, n) =>
          h("li", {}, sized(h("i", { class: "swatch" }), "background", hue(n)), value),
        );
        $("figcaption", figure).append(h("ul", { class: "key values", "aria-label": `Colours of ${name}` }, keys, h("li", {}, sized(h("i", { class: "swatch none" }), "background", "var(--edge)"), "others")));
      }
    });
    $("main").classList.toggle("recoloured", Boolean(name));
    if (this.map) this.showHits();
  }

  showColouring() {
    const keys = [...new Set(this.map.panels.flatMap((panel) => panel.facets.map(({ key }) => key)))];
    const kept = this.colouring.value;
    const words = { tags: "tag", created_at: "age" };
    this.colouring.replaceChildren(
      h("option", { value: "" }, "Colour by collection"),
      ...keys.map((key) => h("option", { value: key }, `Colour by ${words[key] ?? key}`)),
    );
    const chosen = this.wanted.colour || kept;
    this.colouring.value = keys.includes(chosen) ? chosen : "";
    this.colouring.hidden = !keys.length;
    this.recolour();
  }

  /** What was picked on a map: a region, the points of a lasso, or one to open. */
  async pick(plot, found) {
    if (found.region) return this.showChosen(plot, plot.within(found.region), found.region.words, found.region);
    if (!found.points) return this.on.open(found.hit ?? plot.panel.about(found.point));
    if (!found.points.length) return announce("No point lies inside the line.");
    const { panel } = plot;
    plot.light(found.points);
    const ids = {};
    for (const point of some(found.points, MOST_IDS)) (ids[panel.collectionOf(point)] ??= []).push(panel.idOf(point));
    const { words } = await call("region", { ...this.asked, ids }).catch(() => ({ words: [] }));
    if (this.plots.includes(plot)) this.showChosen(plot, found.points, words);
  }

  /** The largest regions as buttons: with the focus one stands out, pressed it opens. */
  showRegions() {
    const buttons = this.plots.flatMap((plot) =>
      plot.panel.regions.slice(0, LISTED).map((region) => {
        const points = plot.within(region);
        return h("button", {
          type: "button", class: "use", dir: "auto",
          onfocus: () => plot.light(points, region),
          onblur: () => this.region.hidden && plot.light(null),
          onclick: () => this.showChosen(plot, points, region.words, region),
        }, region.name, h("span", { class: "count" }, ` ${region.size.toLocaleString("en")}`));
      }),
    );
    this.regions.replaceChildren(...buttons.map((one) => h("li", {}, one)));
    this.regions.hidden = !buttons.length;
    if (this.wanted.region) this.showWanted();
  }

  /** Points of a map: their words, their documents, and what can be done with them. */
  showChosen(plot, points, words, region = null) {
    plot.light(points, region);
    const before = document.activeElement;
    const close = () => {
      if (this.region.contains(document.activeElement)) before.focus();
      this.region.hidden = true;
      this.open = null;
      this.wanted.region = "";
      plot.light(null);
      this.on.within(null);
      this.on.viewed();
    };
    const ids = some(points, MOST_IDS).map((point) => plot.panel.idOf(point));
    this.open = region?.name ?? null;
    this.wanted.region = "";
    this.on.viewed();
    this.chosen = words[0] ?? "what you drew around";
    this.everywhere = () => {
      only.setAttribute("aria-pressed", "false");
      this.on.within(null);
    };
    const only = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      if (only.getAttribute("aria-pressed") === "true") return this.everywhere();
      only.setAttribute("aria-pressed", "true");
      this.on.within(ids);
    } }, ids.length < points.length ? `Search only here (in ${plural(ids.length, "point")} of them)` : "Search only here");
    const typical = plot.typical(points, SHOWN * 4).map((point) => plot.panel.about(point)).filter(there);
    const different = typical.filter(({ title }, n) => n === typical.findIndex((one) => one.title === title));
    const documents = different.slice(0, SHOWN).map((one) => {
      return h("li", {}, h("button", { type: "button", class: "open", dir: "auto", onclick: () => this.on.open(one) }, clip(one.title || one.id, LONGEST)));
    });
    const like = words.slice(0, 5).join(" ");
    this.region.replaceChildren(
      h("h3", { dir: "auto", tabIndex: -1 }, words.join(", ") || "What you drew around"),
      h("p", { class: "hint" }, plural(points.length, "point")),
      h("ul", {}, documents),
      h(
        "p",
        { class: "acts" },
        only,
        like && h("button", { type: "button", onclick: () => this.on.search(like) }, "More like this"),
        h("button", { type: "button", class: "close-region", onclick: close }, "Close"),
      ),
    );
    this.region.hidden = false;
    if (before.matches(":focus-visible")) $("h3", this.region).focus();
    this.region.scrollIntoView({ block: "nearest" });
    announce(`Region ${words.join(", ")}, ${plural(points.length, "point")}`);
  }

  /** The map as it is seen, as files. */
  save() {
    this.plots.forEach((plot, place) => plot.canvas.toBlob((picture) => download(picture, `map${place || ""}.png`)));
  }

  /** Places a search on the points that are drawn already; draws anew where those have changed. */
  async place(search, signal) {
    this.searched = search;
    if (!this.map) return this.load(this.asked?.collections, this.asked?.points, search, signal);
    const answer = await call("map", { ...this.asked, search, parts: "places" }, signal);
    if (signature(answer) !== signature(this.map)) {
      return this.load(this.asked.collections, this.asked.points, search, signal);
    }
    this.showPlaces(answer);
  }

  /** Takes the search off the map. */
  unplace() {
    this.searched = null;
    this.showPlaces({ hits: [], queries: [], notes: this.map?.notes ?? [] });
  }

  show(map) {
    this.map = map;
    const looks = this.plots.map(({ transform }) => transform);
    for (const plot of this.plots) plot.destroy();
    const holders = map.panels.map((panel) => {
      const holder = h("div", { class: "canvas" });
      return h("figure", { class: "panel" }, this.caption(panel, map.panels.length), holder);
    });
    $("#panels").replaceChildren(...holders);
    $("#panels").dataset.panels = holders.length;
    this.plots = map.panels.map((panel, place) => {
      const colours = panel.groups.map((group) => this.colour(group.collection));
      const plot = new Plot($(".canvas", holders[place]), panel, colours, {
        hover: (found, x, y) => this.hover(plot, found, x, y),
        pick: (found) => this.pick(plot, found),
        rests: () => this.on.viewed(),
        lassoed: () => this.lasso.setAttribute("aria-pressed", "false"),
        step: (hit) => announce(`${hit.rank}: ${hit.title}, ${hit.collection}, relevance ${fixed(hit.relevance)}`),
      });
      if (looks.length === map.panels.length) plot.transform = looks[place];
      plot.hide(this.hidden);
      plot.arrange(this.layout);
      return plot;
    });
    this.region.hidden = true;
    this.wanted.region ||= this.open ?? "";
    this.open = null;
    this.placed = { hits: [], queries: [] };
    this.showLayouts();
    this.showColouring();
    this.showRegions();
    if (!map.panels.length) {
      $("#panels").replaceChildren(h("p", { class: "empty" }, map.notes[0] ?? "There is nothing to draw."));
    }
    this.showPlaces(map);
  }

  showPlaces(answer) {
    const before = JSON.stringify(this.placed.hits);
    this.placed = { hits: answer.hits, queries: answer.queries };
    this.showHits();
    if (before !== JSON.stringify(answer.hits)) for (const plot of this.plots) this.aim(plot);
    this.notes = answer.notes;
    this.rows = null;
    this.showVariance();
    this.showView();
  }

  /** The pins: of the colours of the collections, where those are the colours of the map. */
  showHits() {
    const { hits, queries } = this.placed;
    this.plots.forEach((plot, place) => {
      const own = hits.filter((hit) => hit.panel === place);
      const coloured = own.map((hit) => ({ ...hit, colour: this.colouring.value ? plot.surface : this.colour(hit.collection) }));
      plot.show(coloured, queries.find((query) => query.panel === place) ?? null);
      plot.mark(this.marked);
    });
  }

  /** To what the address names of the view, else to the hits. */
  aim(plot) {
    if (this.wanted.at && plot === this.plots[0]) plot.view = this.wanted.at;
    else plot.approach();
  }

  /** The text that is open stands out. */
  mark(name) {
    this.marked = name;
    for (const plot of this.plots) plot.mark(name);
  }

  drop() {
    for (const plot of this.plots) plot.drop();
  }

  whole() {
    for (const plot of this.plots) plot.reset();
  }

  caption(panel, count) {
    const keys = panel.groups.map((group) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            class: "toggle",
            "aria-pressed": String(!this.hidden.has(group.collection)),
            onclick: (event) => this.toggle(group.collection, event.currentTarget),
          },
          sized(h("i", { class: "swatch" }), "background", this.colour(group.collection)),
          group.collection,
          h("span", { class: "count" }, group.count < group.total ? `${group.count} of ${group.total}` : group.count),
        ),
      ),
    );
    return h(
      "figcaption",
      {},
      count > 1 && h("p", { class: "model" }, panel.model),
      h("ul", { class: "key" }, keys),
    );
  }

  /** Takes a collection's points off the map, or puts them back. */
  toggle(collection, button) {
    if (!this.hidden.delete(collection)) this.hidden.add(collection);
    button.setAttribute("aria-pressed", String(!this.hidden.has(collection)));
    for (const plot of this.plots) plot.hide(this.hidden);
  }

  /** How much of the differences between the points is seen. */
  showVariance() {
    if (!this.map) return;
    const lines = this.map.panels.map((panel) => {
      if (panel.second && this.layout === "neighbours") {
        return h("p", {}, `What is alike lies near; distances between groups mean little. ${plural(panel.count, "point")}.`);
      }
      const shares = panel.explained.slice(0, this.layout === "3-D" ? 3 : 2);
      const all = shares.reduce((sum, share) => sum + share, 0);
      return h(
        "div",
        { class: "variance" },
        h(
          "div",
          { class: "meter", "aria-hidden": "true" },
          shares.map((share, axis) => sized(h("i", { class: `axis${axis}` }), "width", `${share * 100}%`)),
        ),
        h(
          "p",
          {},
          `${percent(all)} of the variance is seen`,
          this.map.panels.length > 1 ? ` of ${panel.model}` : "",
          ": ",
          shares.map((share, axis) => `PC ${axis + 1} ${(share * 100).toFixed(1)} %`).join(", "),
          `. ${plural(panel.count, "point")}.`,
        ),
      );
    });
    $("#map-notes").replaceChildren(
      ...lines,
      ...(this.notes ?? []).map((note) => h("p", { class: "hint" }, note)),
    );
  }

  showView() {
    const table = this.view === "table";
    $("#panels").hidden = table;
    this.regions.hidden = table || !this.regions.children.length;
    $("#points").hidden = !table;
    $("#zoom").hidden = table;
    $("#tip").hidden = true;
    if (table && this.map) this.showTable();
  }

  /** Every point as a row: the results first, then collection by collection. */
  showTable() {
    this.rows ??= this.listed();
    const body = h("tbody");
    const more = h("button", { type: "button", class: "more" });
    const grow = () => {
      const from = body.children.length;
      body.append(...this.rows.slice(from, from + PAGE).map((row) => this.row(row)));
      const left = this.rows.length - body.children.length;
      more.hidden = left <= 0;
      more.textContent = `Show ${Math.min(left, PAGE)} more of ${left.toLocaleString("en")}`;
    };
    more.addEventListener("click", grow);
    const head = ["Rank", "Title", "Collection", "Relevance", "PC 1", "PC 2", "PC 3"];
    $("#points").replaceChildren(
      h(
        "div",
        { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Points of the map" },
        h(
          "table",
          {},
          h("caption", { class: "sr" }, "Points of the map, the results of the search first"),
          h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))),
          body,
        ),
      ),
      more,
    );
    grow();
  }

  listed() {
    const hits = new Set(this.placed.hits.map((hit) => `${hit.collection}\n${hit.id}`));
    const rows = this.placed.hits.map((hit) => ({ ...hit }));
    for (const panel of this.map.panels) {
      for (let n = 0; n < panel.count; n++) {
        const one = panel.about(n);
        if (hits.has(`${one.collection}\n${one.id}`)) continue;
        rows.push({ ...one, at: panel.xyz.subarray(n * 3, n * 3 + 3) });
      }
    }
    return rows.filter(there);
  }

  row(one) {
    const open = h("button", { type: "button", class: "open", onclick: () => this.on.open(one) }, one.title || one.id);
    return h(
      "tr",
      { class: one.rank ? "ranked" : "" },
      h("td", { class: "number" }, one.rank ?? ""),
      h("td", {}, open),
      h("td", {}, sized(h("i", { class: "swatch" }), "background", this.colour(one.collection)), one.collection),
      h("td", { class: "number" }, one.rank ? fixed(one.relevance) : ""),
      [0, 1, 2].map((axis) => h("td", { class: "number" }, one.at ? fixed(one.at[axis], 3) : "–")),
    );
  }

  hover(plot, found, x, y) {
    clearTimeout(this.waiting);
    const tip = $("#tip");
    if (!found) {
      tip.hidden = true;
      this.on.point(null);
      return;
    }
    if (found.region) {
      tip.replaceChildren(
        h("strong", {}, found.region.words.slice(0, 6).join(", ")),
        h("p", { class: "where" }, `${plural(found.region.size, "point")}. Click for its documents.`),
      );
      tip.hidden = false;
      this.putTip(plot, x, y);
      return;
    }
    const one = found.hit ?? plot.panel.about(found.point);
    this.on.point(found.hit ?? null);
    const excerpt = h("p", { class: "excerpt" }, one.snippet ?? this.texts.get(one.id) ?? "…");
    tip.replaceChildren(
      h("strong", {}, one.title || one.id),
      h(
        "p",
        { class: "where" },
        sized(h("i", { class: "swatch" }), "background", this.colour(one.collection)),
        one.collection,
        one.rank ? ` · no. ${one.rank}, relevance ${fixed(one.relevance)}` : "",
      ),
      excerpt,
    );
    tip.hidden = false;
    this.putTip(plot, x, y);
    if (excerpt.textContent === "…") {
      this.waiting = setTimeout(() => this.fetchExcerpt(one, excerpt), EXCERPT_DELAY);
    }
  }

  putTip(plot, x, y) {
    const tip = $("#tip");
    const card = $("#map").getBoundingClientRect();
    const canvas = plot.canvas.getBoundingClientRect();
    const [left, top] = [canvas.left - card.left + x, canvas.top - card.top + y];
    const across = Math.max(8, Math.min(left + 16, card.width - tip.offsetWidth - 8));
    const below = top + 16 + tip.offsetHeight < card.height;
    sized(tip, "left", `${across}px`);
    sized(tip, "top", `${below ? top + 16 : Math.max(8, top - tip.offsetHeight - 16)}px`);
  }

  /** Large maps travel without excerpts: the one that is pointed at is asked for. */
  async fetchExcerpt({ id, collection }, holder) {
    if (!id) return; // its name is still on the way
    try {
      const { documents } = await call("text", { id, collection });
      const text = documents[0].text.slice(0, 160);
      this.texts.set(id, text);
      holder.textContent = text;
    } catch {
      holder.textContent = ""; // the title stands there; a click says what is wrong
    }
  }

  /** Marks a result on the map, from the list. */
  highlight(result) {
    for (const plot of this.plots) {
      plot.highlight(result ? (plot.hits.find((hit) => key(hit) === key(result)) ?? null) : null);
    }
  }
}

/** So many of them at most, evenly chosen. */
function some(points, most) {
  const step = Math.ceil(points.length / most);
  return points.filter((_, n) => n % step === 0);
}
