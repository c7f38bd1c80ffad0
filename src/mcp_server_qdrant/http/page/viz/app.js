// The page: what was asked, what is shown, and what happens when the server is away.

import { call, Refused, token, Unreachable } from "./api.js";
import { judgementsLine, table } from "./compare.js";
import { Controls, LIMITS } from "./controls.js";
import { $, announce, h, key, plural, there } from "./dom.js";
import { showEmpty, showHome } from "./home.js";
import { clear, judge, judged } from "./judgements.js";
import { MapCard } from "./map.js";
import { closeText, mayLeave, openText } from "./passage.js";
import { palette } from "./plot.js";
import { showPalette } from "./palette.js";
import { picture } from "./ranks.js";
import { about, left, sentences, showResults, weak } from "./results.js";
import { go, read } from "./route.js";
import { Texts } from "./texts.js";

const PATIENCE = 250; // ms after the last change of a setting until it is searched again
const AGAIN = 3000; // ms between tries to reach a server that is away
const LATER = 5000; // ms until it is asked again for what it did not know, or did not have
const SOON = 1000; // ms until it is looked whether an empty store has its first text
const VIEWS = ["search", "map", "texts"];

const colours = new Map();
const colour = (collection) => colours.get(collection) ?? "#888";
const state = { query: "", view: "search", answer: null, rows: null, compared: null, shown: null, open: null, ids: null };
let under = null; // the search that is under way
let drawing = null; // the map that is being drawn
let running = 0; // how much is under way
let timer;
let watching; // whether it is looked for what is new

const controls = new Controls($("#settings"), changed, redraw);
const map = new MapCard(colour, {
  open: (one) => open(one),
  search: (words) => {
    $("#query").value = words;
    ask(words);
  },
  within: (ids, name) => {
    if (state.ids === ids) return;
    [state.ids, state.kept] = [ids, name];
    showUse();
    if (state.query) search();
    else if (ids) $("#query").focus();
  },
  viewed: () => controls.chosen && go(route(), { step: false }),
  point: (hit) => {
    for (const element of document.querySelectorAll(".hit")) {
      element.classList.toggle("pointed", Boolean(hit) && element.dataset.key === key(hit));
    }
  },
});
const texts = new Texts(controls, colour, { open, changed: () => visit(), failed });

$("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask($("#query").value);
});
$("#theme").addEventListener("click", () => globalThis.toggleTheme());
$("#token").addEventListener("click", askToken);
$("#compare-run").addEventListener("click", compare);
$("#settings-open").addEventListener("click", () => showSettings($("#controls").hidden));
$("#settings-close").addEventListener("click", () => showSettings(false));
$("#settings-reset").addEventListener("click", () => visit({ q: state.query, view: state.view }));
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) showPalette(commands(), (words) => map.on.search(words));
  else if (event.key === "/" && !typing) $("#query").focus(), $("#query").select();
  else if (event.ctrlKey || event.metaKey) return;
  else if (event.key === "Escape" && !$("#controls").hidden) showSettings(false);
  else if (event.key === "Escape" && state.open && event.target !== $("#query")) close();
  else if (event.key === "Escape" && !typing) map.whole();
  else if (!typing && (event.key === "j" || event.key === "k")) step(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
});
$(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("#results").focus();
});
$("#tabs").addEventListener("click", (event) => {
  const view = event.target.dataset?.view;
  if (!view) return;
  event.preventDefault();
  visit({ ...here(), ...CLOSED, view });
});
document.addEventListener("theme", nameTheme);
addEventListener("popstate", () => (mayLeave() ? follow() : go(route())));
nameTheme();
showJudgements();
start();

function nameTheme() {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  $("#theme").setAttribute("aria-label", `Switch to the ${other} theme`);
  $("#theme").title = `Switch to the ${other} theme`;
}

/** What the page knows of the server, then the map. Tried again for as long as nothing answers. */
async function start() {
  progress(true);
  try {
    const names = await setUp();
    $("#foot").textContent = `mcp-server-qdrant ${controls.setup.defaults.version}`;
    well();
    if (!names.length) return nothingYet();
    call("tags").then(({ tags }) => controls.showTags(tags), () => {});
    state.shown = null;
    follow();
    await redraw();
    watching ??= setTimeout(watch, LATER);
  } catch (error) {
    failed(error, start);
  } finally {
    progress(false);
  }
}

async function setUp() {
  const setup = await call("setup");
  const names = setup.collections.map(({ name }) => name).sort();
  const hues = palette(names.length);
  names.forEach((name, place) => colours.set(name, hues[place]));
  controls.build(setup, colour);
  // What did not answer in time has no number yet.
  if (setup.collections.some(({ note, legs }) => note && !legs.length)) setTimeout(again, LATER);
  return names;
}

async function again() {
  await setUp().catch(() => {});
  if (!state.query) home();
}

/** What agents store meanwhile appears by itself. */
async function watch() {
  const before = counts();
  const setup = document.hidden || state.shown !== "home" || state.view === "texts" ? null : await call("setup").catch(() => null);
  if (setup && counts(setup) !== before && !running) {
    await setUp().catch(() => {});
    state.shown = null;
    show();
    await redraw();
  }
  setTimeout(watch, LATER);
}
const counts = ({ collections } = controls.setup) => JSON.stringify(collections.map(({ name, points }) => [name, points]));

// Where the reader is: all of it in the address.

const CLOSED = { doc: "", of: "", at: "" };
const here = () => ({ q: state.query, view: state.view, ...controls.link(), ...texts.link(), ...map.link(), doc: state.open?.id, of: state.open?.collection });
const route = (to = here()) => ({ ...to, view: to.view === "search" ? "" : to.view });

/** Goes to a route: shows it in the address, and then what it names. */
function visit(to = here(), options = {}) {
  if (to.doc !== state.open?.id && !mayLeave()) return;
  go(route(to), options);
  follow();
}

/** Shows what the address names. */
function follow() {
  const route = read();
  if (!controls.setup || !controls.known.length) return;
  const drawn = String(controls.named()) + controls.points;
  controls.follow(route);
  texts.follow(route);
  map.follow(route);
  state.view = VIEWS.includes(route.view) ? route.view : "search";
  state.query = $("#query").value = route.q ?? "";
  if (map.asked && drawn !== String(controls.named()) + controls.points) redraw();
  show();
  if (route.doc && (state.open?.id !== route.doc || state.open.collection !== route.of)) showText({ id: route.doc, collection: route.of });
  else if (!route.doc) closed();
}

// The open text.

function open(one, options = {}) {
  if (!mayLeave()) return;
  go(route({ ...here(), doc: one.id, of: one.collection }), options);
  showText(one);
}

function close(options = {}) {
  const was = state.open;
  visit({ ...here(), doc: "", of: "" }, options);
  if (!state.open && was) document.querySelectorAll("[data-key]").forEach((row) => row.dataset.key === key(was) && $(".open", row)?.focus());
}

function closed() {
  state.open = null;
  closeText();
  map.mark(null);
}

/** The texts that are listed where the reader is. */
const listed = () => (state.view === "texts" ? texts.shown() : state.answer?.results ?? []).filter(there);

function step(by) {
  const rows = listed();
  const at = state.open ? rows.findIndex((one) => key(one) === key(state.open)) : -1;
  const next = at < 0 ? rows[0] : rows[at + by];
  if (next) open(next);
}

function showText(one) {
  state.open = one;
  openText(one, {
    query: state.query,
    setup: controls.setup,
    open,
    around: () => {
      const rows = listed();
      const at = rows.findIndex((row) => key(row) === key(state.open));
      return {
        before: at > 0 && (() => step(-1)),
        after: at >= 0 && at < rows.length - 1 && (() => step(1)),
        place: at < 0 ? "" : `${at + 1} of ${rows.length}`,
        close: () => close(),
      };
    },
    opened: ({ document }) => {
      state.open = { ...one, document };
      map.mark(key(state.open));
    },
    left: () => {
      close({ step: false });
      relist();
    },
    changed: async () => {
      relist();
      await setUp().then(follow, () => {});
      state.shown = null;
      show();
      await redraw();
    },
  });
}

/** Shows the lists as they are, without what is gone. */
function relist() {
  map.drop();
  if (state.view === "texts") texts.draw();
  else if (state.answer) showAnswer();
  else if (state.shown === "home") home();
}

function ask(words) {
  if (!controls.chosen) return; // not started yet
  state.query = words.trim();
  state.shown = null; // asked again on purpose
  visit({ ...here(), ...CLOSED });
}

/** The view, unless it is shown already. */
function show() {
  showUse();
  $("main").dataset.view = state.view;
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === state.view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (state.view === "texts") return texts.show(state.query);
  const wanted = state.query ? JSON.stringify(asked()) : "home";
  if (wanted === state.shown) return;
  state.shown = wanted;
  if (state.query) search();
  else home();
}

/** What Ctrl-K offers: the map's, the views, then every text that is listed or drawn. */
function commands() {
  const views = VIEWS.map((view) => ({ kind: "Show", name: view, act: () => visit({ ...here(), ...CLOSED, view }) }));
  const known = new Map([...listed(), ...map.texts()].filter(({ title }) => title).map((one) => [key(one), one]));
  const texts = [...known.values()].map((one) => ({ kind: "Open", name: one.title, act: () => open(one) }));
  return [...map.commands(), ...views, ...texts];
}

/** The number of settings in use, and each of them to take away. */
function showUse() {
  const link = controls.link();
  const used = Object.entries(link).flatMap(([name, value]) =>
    Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]],
  );
  const away = (name, value) => () => {
    const rest = Array.isArray(link[name]) ? link[name].filter((one) => one !== value) : "";
    visit({ ...here(), [name]: rest });
  };
  $("#settings-count").textContent = used.length;
  $("#settings-count").hidden = !used.length;
  $("#settings-open").setAttribute("aria-label", `Settings${used.length ? `, ${used.length} in use` : ""}`);
  const chip = (label, act) => h("li", {}, h("button", { type: "button", class: "use", "aria-label": `Without ${label}`, onclick: act }, label, h("span", { "aria-hidden": "true" }, " ×")));
  $("#active").hidden = !used.length && !state.ids;
  $("#active").replaceChildren(
    ...used.map(([name, value]) => chip(`${name.replace(/^f\./, "").replaceAll("_", " ")}: ${value}`, away(name, value))),
    state.ids ? chip(`only in: ${state.kept}`, () => map.chosen.keep(false)) : "",
  );
}

function showSettings(on) {
  $("#controls").hidden = !on;
  $("#settings-open").setAttribute("aria-expanded", String(on));
  (on ? $("#settings-close") : $("#settings-open")).focus();
}

/** Draws the chosen collections. */
async function redraw() {
  drawing?.abort();
  if (!controls.chosen?.size) return;
  const mine = (drawing = new AbortController());
  try {
    await map.load(controls.named(), controls.points, state.query ? asked() : null, mine.signal, Math.min(controls.points, controls.total()));
    well();
  } catch (error) {
    if (error.name !== "AbortError") failed(error, redraw);
  }
}

const asked = () => ({ query: state.query, ...controls.asked(), ...(state.ids && { ids: state.ids }) });

/** A setting was changed: what was searched is searched again, and what has a tag is listed. */
function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!state.query && controls.tags.size) state.view = "texts";
    go(route(), { step: false });
    show();
  }, PATIENCE);
}

async function search() {
  clearTimeout(timer);
  under?.abort();
  const mine = (under = new AbortController());
  if (!controls.chosen.size) return failed(new Error("Choose at least one collection."), null);
  progress(true);
  $("#home").hidden = true;
  $("#results").classList.add("stale");
  $("#results-about").textContent = "Searching…";
  const wanted = asked();
  try {
    state.answer = await call("search", wanted, mine.signal);
    state.weak = false;
    if (state.compared !== JSON.stringify(wanted)) state.rows = null;
    well();
    showAnswer();
    if (map.asked) await map.place(wanted, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      const again = () => search();
      failed(error, again);
      state.answer = state.rows = null;
      nothing("There are no results: the search failed.");
      map.unplace();
    }
  } finally {
    if (under === mine) $("#results").classList.remove("stale");
    progress(false);
  }
}

function nothing(sentence, ...more) {
  $("#hits").hidden = false;
  $("#more").hidden = true;
  $("#results-about").textContent = "";
  $("#bar-key").hidden = true;
  $("#notes").hidden = true;
  $("#hits").replaceChildren(h("li", { class: "empty" }, h("p", {}, sentence), ...more));
  showComparison();
}

function showAnswer() {
  const { answer, query } = state;
  const collections = controls.named();
  const said = sentences(answer);
  $("#home").hidden = true;
  $("#results-title").textContent = "Results";
  const results = answer.results.filter(there);
  if (!results.length) {
    const loosen = $("#settings-count").hidden
      ? null
      : h("button", { type: "button", onclick: () => visit({ q: query, view: state.view }) }, "Search without the settings");
    nothing("Nothing fits. Try fewer or other words.", loosen);
  } else {
    showResults($("#hits"), results, {
      query,
      grades: judged(query, collections),
      colour,
      on: { open, point: (one) => map.highlight(one), judge: give },
    });
  }
  showMore($("#more"), results.length && weak(answer) && !state.weak, results.length);
  $("#results-about").textContent = about(answer);
  $("#bar-key").hidden = !results.length;
  $("#notes").hidden = !said.length;
  $("#notes").replaceChildren(...said.map((one) => h("li", {}, one)));
  announce(`${about(answer)}. ${said.join(" ")}`);
  showComparison();
}

/** Below the list, or in its place: what shows the weak ones, or more. */
function showMore(button, folded, shown) {
  const limit = LIMITS.find((one) => one > shown);
  const more = Math.min(left(state.answer), limit - shown);
  $("#hits").hidden = folded;
  button.hidden = !folded && !(more > 0);
  button.textContent = folded ? `Show ${plural(shown, "weak match", "weak matches")}` : `Show ${more} more`;
  button.onclick = () => {
    if (folded) {
      state.weak = true;
      return showAnswer();
    }
    controls.values.limit = limit;
    visit();
  };
}

/** A thumb, in the list or in the comparison; the focus stays where it was. */
function give(one, grade) {
  const collections = controls.named();
  judge(state.query, collections, one, grade);
  const given = judged(state.query, collections)[key(one)];
  for (const item of document.querySelectorAll(".judged")) {
    if (item.dataset.key !== key(one)) continue;
    item.querySelectorAll(".thumb").forEach((thumb, place) => {
      thumb.setAttribute("aria-pressed", String(given === 1 - place));
    });
  }
  showJudgements();
  showTable();
}

async function compare() {
  if (!state.query) {
    $("#query").focus();
    return announce("Search for something first.");
  }
  const button = $("#compare-run");
  button.disabled = true;
  button.textContent = "Comparing…";
  progress(true);
  try {
    const wanted = asked();
    const { algorithms } = await call("compare", wanted);
    if (wanted.query === state.query) {
      state.rows = algorithms;
      state.compared = JSON.stringify(wanted);
    }
    well();
    showComparison();
    announce("The algorithms are compared.");
  } catch (error) {
    failed(error, compare);
  } finally {
    button.disabled = false;
    button.textContent = "Compare";
    progress(false);
  }
}

function showComparison() {
  const { rows, query } = state;
  if (!rows) {
    const hint = query ? "Press Compare to run all four." : "Search for something, then compare.";
    $("#comparison").replaceChildren(h("p", { class: "hint" }, hint));
    return;
  }
  const grades = judged(query, controls.named());
  $("#comparison").replaceChildren(h("div", { id: "figures" }), picture(rows, { grades, colour, open, judge: give }));
  showTable();
}

function showTable() {
  if (state.rows) $("#figures").replaceChildren(table(state.rows, state.query, judged(state.query, controls.named())));
}

function showJudgements() {
  const line = judgementsLine(() => {
    clear();
    showJudgements();
    if (state.answer) showAnswer();
  });
  $("#judgements").replaceChildren(...line);
}

/** Before the first search: what is here. */
async function home() {
  under?.abort();
  state.answer = state.rows = null;
  map.unplace();
  $("#results").classList.remove("stale");
  $("#results-title").textContent = "What is here";
  $("#results-about").textContent = "";
  $("#bar-key").hidden = $("#notes").hidden = true;
  $("#hits").replaceChildren();
  $("#more").hidden = true;
  $("#home").hidden = false;
  showComparison();
  const on = {
    open,
    ask,
    only: (collection, tag) => visit({ view: "texts", in: [collection], tag: tag ? [tag] : [] }),
  };
  try {
    await showHome($("#home"), controls, colour, on);
  } catch (error) {
    failed(error, home);
  }
}

/** Nothing is stored: how to begin, and a look now and then whether something was. */
function nothingYet() {
  map.busy(false);
  const look = async () => {
    const { collections } = await call("setup").catch(() => ({ collections: [] }));
    if (collections.length) start();
    else setTimeout(look, SOON);
  };
  $("#results-title").textContent = "No collections yet";
  $("#panels").replaceChildren(h("div", { class: "empty" }, "The map is drawn as soon as something is stored."));
  $("#home").hidden = false;
  showEmpty($("#home"), controls.setup, { failed });
  setTimeout(look, SOON);
}

// What is going wrong, and how it gets well again.

function failed(error, again) {
  const alert = $("#alert");
  map.busy(false);
  if (error instanceof Refused && error.status === 401) {
    $("#token").hidden = false;
    askToken();
  }
  const retry = again && h("button", { type: "button", onclick: () => again() }, "Try again");
  alert.replaceChildren(h("span", {}, error.message), retry ?? "");
  alert.hidden = false;
  if (error instanceof Unreachable && again) timer = setTimeout(again, AGAIN);
}

function well() {
  $("#alert").hidden = true;
  $("#alert").replaceChildren();
}

function progress(on) {
  running = Math.max(0, running + (on ? 1 : -1));
  $("#progress").hidden = running === 0;
  $("#results").setAttribute("aria-busy", String(running > 0));
}

function askToken() {
  const dialog = $("#access");
  const input = h("input", { id: "token-value", type: "password", autocomplete: "off", value: token.get() });
  dialog.replaceChildren(
    h("h2", { id: "access-title" }, "Access token"),
    token.get() ? h("p", { class: "failed", role: "alert" }, "This server does not accept the token that it got.") : "",
    h("p", { class: "hint" }, "This server asks who you are. The token is kept in this tab only, until it is closed."),
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          token.set(input.value.trim());
          dialog.close();
          start();
        },
      },
      h("label", { htmlFor: "token-value" }, "Token"),
      input,
      h("footer", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: "primary" }, "Use it")),
    ),
  );
  if (!dialog.open) dialog.showModal();
}
