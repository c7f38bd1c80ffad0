// The card with the map: its panels, what is pointed at, the same points as a table.

import { call } from "./api.js";
import { segmented } from "./controls.js";
import { $, announce, download, fixed, h, key, percent, plural, sized, there } from "./dom.js";
import { decode, layOut, name, signature } from "./mapdata.js";
import { circle } from "./input.js";
import { Plot } from "./plot.js";
import { showTip, swatch, typicalTexts } from "./points.js";
import { hue } from "./raster.js";

const EXCERPT_DELAY = 150; // ms of pointing before a text is asked for
const NAMED = 2000; // points up to which their names travel with them
const SOON = 10000; // points above which a smaller map is shown first
const LOOK = 3000; // points of it
const LAID = 1500; // ms between two questions for the layout by neighbours
const SHOWN = 6; // documents of a region
const LISTED = 9; // regions
const MOST_IDS = 5000; // that a search is kept to

export class MapCard {
  /** `on`: open(point), point(hit or null), search(query), within(ids or null), viewed(); `colour(collection)`. */
  constructor(colour, on) {
    this.colour = colour;
    this.on = on;
    this.plots = [];
    this.map = null;
    this.placed = { hits: [], queries: [] };
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
    this.wanted = { lasso: "" };
    this.chosen = null; // points that stand out: { region or line, kept, close(), keep(on) }
    this.regions = h("ul", { class: "chips", "aria-label": "Regions", hidden: true });
    this.region.before(this.regions);
    this.region.addEventListener("keydown", ({ key }) => key === "Escape" && this.chosen?.close());
    this.excerpts = new Map();
    const button = (label, name, act) =>
      h("button", { type: "button", "aria-label": name, title: name, onclick: act }, label);
    this.lasso = button("Lasso", "Draw around points (or drag with Shift)", ({ detail }) => {
      const on = this.lasso.getAttribute("aria-pressed") === "false";
      this.lasso.setAttribute("aria-pressed", String(on));
      for (const plot of this.plots) plot.lassoing = on;
      if (!on || detail || !this.plots.length) return; // a mouse draws, a key gets a circle
      circle(this.plots[0]);
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
    const { layout, colouring, chosen, plots, wanted } = this;
    const other = layout === "neighbours" ? "" : layout;
    if (!plots.length) return { ...wanted, layout: other };
    const { region, line, kept } = chosen ?? { ...wanted, line: wanted.lasso, kept: wanted.only };
    return { layout: other, colour: colouring.value || wanted.colour, region, lasso: line, only: kept ? "1" : "", at: plots[0].camera.view };
  }

  /** Shows what an address names, now or as soon as it is there. */
  follow({ layout = "neighbours", colour = "", region = "", lasso = "", only = "", at = "" }) {
    this.wanted = { layout, colour, region, lasso, only, at };
    if (!this.plots.length) return void (this.layout = layout);
    if (layout !== this.layout) this.arrange(layout);
    if (colour !== this.colouring.value) this.showColouring(), this.recolour();
    if (at !== this.plots[0].camera.view) at ? this.look(this.plots[0], at) : this.whole();
    const { region: open = "", line = "", kept = false } = this.chosen ?? {};
    if (region === open && lasso === line) return void (this.chosen && kept !== Boolean(only) && this.chosen.keep(Boolean(only)));
    region || lasso ? this.showWanted() : this.chosen?.close();
  }

  look(plot, view) {
    if (!plot.width) return;
    const goal = plot.camera.goal();
    plot.moves.clear();
    plot.camera.blend(goal, goal, 1);
    plot.camera.view = view;
    plot.draw(true);
  }

  arrange(layout) {
    this.layout = layout;
    for (const plot of this.plots) plot.arrange(layout);
    this.showLayouts();
    this.showVariance();
  }

  /** The region, or the line around points, that the address names, once all of it is there. */
  showWanted() {
    const { region, lasso, only } = this.wanted;
    if (!region && !lasso) return;
    const unnamed = this.plots.some(({ panel }) => panel.ids.length < panel.count);
    if ((lasso || only) && (unnamed || (this.layout === "neighbours" && this.map.coming))) return;
    const [place, line] = lasso.split(":");
    if (lasso && this.plots[place]) return this.showLassoed(this.plots[place], line);
    for (const plot of this.plots) {
      const found = plot.panel.regions.find((one) => one.name === region);
      if (found && this.chosen?.region !== region) return this.showChosen(plot, plot.within(found), found.words, found);
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
        if (named() <= start) break;
      }
      this.showWanted();
    } catch {
      // A search or the next map asks again; a click on a point without a title does nothing.
    }
  }

  /** Asks for the layout by neighbours until it is there, and moves over. */
  await(map) {
    this.polling = setTimeout(async () => {
      if (this.map !== map) return;
      const answer = await call("map", { ...this.asked, parts: "neighbours" }).catch(() => null);
      if (this.map !== map) return;
      if (!answer || answer.coming) return this.await(map);
      // A text was stored or deleted meanwhile.
      if (signature(answer) !== signature(map)) return this.load(this.asked.collections, this.asked.points, this.searched).catch(() => {});
      map.coming = false;
      answer.panels.forEach((panel, place) => layOut(map.panels[place], panel));
      this.notes = answer.notes;
      for (const plot of this.plots) {
        plot.camera.lay();
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

  /** The layout by neighbours has its place while it is made, and where it cannot be it has none. */
  showLayouts() {
    const there = this.map.panels.some((panel) => panel.neighbours);
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
          h("li", {}, swatch(hue(n)), value),
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
    if (!("line" in found)) return this.on.open(found.hit ?? plot.panel.about(found.point));
    this.lasso.setAttribute("aria-pressed", "false");
    if (found.line) await this.showLassoed(plot, found.line);
  }

  /** The points inside a line as an address holds it, in the layout that is shown. */
  async showLassoed(plot, line) {
    const { panel } = plot;
    const points = plot.enclosed(line);
    if (!points.length) return announce("No point lies inside the line.");
    plot.light(points);
    const ids = {};
    for (const point of some(points, MOST_IDS)) (ids[panel.collectionOf(point)] ??= []).push(panel.idOf(point));
    const { words } = await call("region", { ...this.asked, ids }).catch(() => ({ words: [] }));
    if (this.plots.includes(plot)) this.showChosen(plot, points, words, { line: `${this.plots.indexOf(plot)}:${line}` });
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
    this.showWanted();
  }

  /** Points of a map: their words, their documents, and what can be done with them. */
  showChosen(plot, points, words, region = null) {
    plot.light(points, region?.name ? region : null);
    const before = document.activeElement;
    const close = () => {
      if (this.region.contains(document.activeElement)) before.focus();
      this.region.hidden = true;
      this.chosen = null;
      Object.assign(this.wanted, { region: "", lasso: "", only: "" });
      plot.light(null);
      this.on.within(null);
      this.on.viewed();
    };
    const ids = some(points, MOST_IDS).map((point) => plot.panel.idOf(point));
    const keep = (on) => {
      this.chosen.kept = on;
      only.setAttribute("aria-pressed", String(on));
      this.on.within(on ? ids : null, words[0] ?? "what you drew around");
      this.on.viewed();
    };
    const only = h("button", { type: "button", onclick: () => keep(!this.chosen.kept) },
      ids.length < points.length ? `Search only here (in ${plural(ids.length, "point")} of them)` : "Search only here");
    this.chosen = { region: region?.name, line: region?.line, close, keep };
    const kept = Boolean(this.wanted.only);
    Object.assign(this.wanted, { region: "", lasso: "", only: "" });
    keep(kept);
    const like = words.slice(0, 5).join(" ");
    this.region.replaceChildren(
      h("h3", { dir: "auto", tabIndex: -1 }, words.join(", ") || "What you drew around"),
      h("p", { class: "hint" }, plural(points.length, "point")),
      typicalTexts(plot, points, SHOWN, this.on.open),
      h(
        "p",
        { class: "acts" },
        only,
        like && h("button", { type: "button", onclick: () => this.on.search(like) }, "More like this"),
        h("button", { type: "button", onclick: close }, "Close"),
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

  /** What can be done with the map, for who types it. */
  commands() {
    const regions = this.plots.flatMap((plot) => plot.panel.regions.map((region) => ({ kind: "Go to region", name: region.name, act: () => this.goTo(plot, region) })));
    const colours = [...this.colouring.options].map(({ value, text }) => ({ kind: "Map:", name: text, act: () => {
      this.colouring.value = value;
      this.colouring.dispatchEvent(new Event("change"));
    } }));
    return [...regions, ...colours];
  }

  /** Every text that is drawn, by its points. */
  texts() {
    return this.plots.flatMap(({ panel }) => panel.titles.map((_, point) => panel.about(point))).filter(there);
  }

  goTo(plot, region) {
    if (this.layout !== "neighbours") this.arrange("neighbours");
    const points = plot.within(region);
    this.showChosen(plot, points, region.words, region);
    const { xy } = plot.panel.neighbours;
    plot.glide(plot.camera.around(points.map((point) => ({ at: [0, 0, 0], neighbours: [xy[point * 2], xy[point * 2 + 1]] }))));
  }

  /** Takes the search off the map. */
  unplace() {
    this.searched = null;
    this.showPlaces({ hits: [], queries: [], notes: this.map?.notes ?? [] });
  }

  show(map) {
    this.map = map;
    const looks = this.plots.map(({ camera }) => camera.transform);
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
        sized: () => this.wanted.at && this.look(plot, this.wanted.at),
        step: (hit) => announce(`${hit.rank}: ${hit.title}, ${hit.collection}, relevance ${fixed(hit.relevance)}`),
      });
      if (looks.length === map.panels.length) plot.camera.transform = looks[place];
      plot.hide(this.hidden);
      plot.arrange(this.layout);
      return plot;
    });
    this.region.hidden = true;
    const { region = "", line = "", kept = false } = this.chosen ?? {};
    if (this.chosen) Object.assign(this.wanted, { region, lasso: line, only: kept ? "1" : "" });
    this.chosen = null;
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
    this.showVariance();
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
    if (this.wanted.at && plot === this.plots[0]) this.look(plot, this.wanted.at);
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
          swatch(this.colour(group.collection)),
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
      if (panel.neighbours && this.layout === "neighbours") {
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

  hover(plot, found, x, y) {
    clearTimeout(this.waiting);
    const excerpt = showTip($("#tip"), plot, found, x, y, this.colour, this.excerpts);
    this.on.point(found?.hit ?? null);
    if (excerpt?.textContent === "…") this.waiting = setTimeout(() => this.fetchExcerpt(found.hit ?? plot.panel.about(found.point), excerpt), EXCERPT_DELAY);
  }

  /** Large maps travel without excerpts: the one that is pointed at is asked for. */
  async fetchExcerpt({ id, collection }, holder) {
    if (!id) return; // its name is still on the way
    try {
      const { documents } = await call("text", { id, collection });
      const text = documents[0].text.slice(0, 160);
      this.excerpts.set(id, text);
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
