// The page: reacts to changes of the address, and to a server that does not answer.

import { call, Refused, token, Unreachable } from "./api.js";
import { $, announce, button, h, key, plural, there } from "./dom.js";
import { showEmpty, showHome } from "./home.js";
import { showJudgements } from "./judgements.js";
import * as map from "./map.js";
import { closeText, hasTyped, mayLeave, openText } from "./passage.js";
import { about, result, sentences } from "./results.js";
import { showSettings } from "./settings.js";
import { asked, chosen, CLOSED, collections, go, LIMITS, named, read, state, unset, used, without } from "./state.js";
import { drawTexts, showTexts } from "./texts.js";

const AGAIN = 3000; // ms between retries if the server does not answer
const LATER = 5000; // ms between checks for new texts
const SOON = 1000; // ms between checks while nothing is stored
const VIEWS = ["search", "map", "texts"];

let runningSearch = null; // aborts it
let drawing = null; // aborts the map request in progress
let retry; // timer of `AGAIN`
let watching = null; // timer of `LATER` or `SOON`

const on = { open, close: () => close(), ask, visit, show, failed, point, step, left: relist, drawn, changed, opened: map.mark, around, judged };

$("#ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask($("#query").value);
});
$("#settings-open").addEventListener("click", () => openSettings($("#controls").hidden));
$("#settings-close").addEventListener("click", () => openSettings(false));
$("#settings-reset").addEventListener("click", () => visit(unset()));
$("#settings").addEventListener("submit", (event) => event.preventDefault());
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input:not([type=checkbox], [type=radio], [type=range]), textarea, select");
  if (event.key === "/" && !typing) $("#query").focus(), $("#query").select();
  else if (event.key === "Escape" && !$("#controls").hidden) openSettings(false);
  else if (event.key === "Escape" && state.open && event.target !== $("#query")) close();
  else if (event.key === "Escape" && (!typing || (event.target === $("#query") && event.target.value === state.route.q))) map.whole();
  else if (!typing && (event.key === "j" || event.key === "k")) step(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
});
$(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("#results").focus();
});
$("#tabs").addEventListener("click", (event) => {
  const { view } = event.target.dataset;
  if (!view) return;
  event.preventDefault();
  visit({ ...CLOSED, view: view === "search" ? "" : view });
});
addEventListener("popstate", () => (mayLeave() ? follow() : go(state.route)));
addEventListener("beforeunload", (event) => hasTyped() && event.preventDefault());
map.connect(on);
start();

/** Loads the state of the server, then the map. Retries until the server answers. */
async function start() {
  progress(1);
  try {
    await setUp();
    $("#foot").textContent = `mcp-server-qdrant ${state.setup.defaults.version}`;
    hideAlert();
    watching ??= setTimeout(watch, SOON);
    if (!collections().length) return nothingYet();
    state.shown = null;
    follow();
    await redraw();
  } catch (error) {
    failed(error, start);
  } finally {
    progress(-1);
  }
}

async function setUp() {
  state.setup = await call("setup");
  if (!collections().length) return;
  state.tags = (await call("tags").catch(() => state)).tags;
}

/** Polls for texts that agents store, and for collections that did not answer in time. */
async function watch() {
  const counts = (setup) => JSON.stringify(setup.collections.map(({ name, points, legs, description }) => [name, points, legs, description]));
  const empty = !collections().length;
  const wanted = !state.running && (empty || (!document.hidden && state.shown === "home" && state.route.view !== "texts"));
  const setup = wanted && (await call("setup").catch(() => null));
  if (setup && counts(setup) !== counts(state.setup)) await changed();
  watching = setTimeout(watch, collections().length ? LATER : SOON);
}

/** Reloads everything after a text was stored, changed or deleted. */
async function changed() {
  relist();
  await setUp().catch(() => {});
  state.shown = null;
  follow();
  if (!state.map?.coming) await redraw(); // else the map polls
}

// Navigation: the address has the whole state.

/** Goes to another address, and shows what it names. */
function visit(change = {}, options = {}) {
  const to = { ...state.route, ...change };
  if ((to.doc || "") !== (state.route.doc ?? "") && !mayLeave()) return;
  hideAlert();
  go(to, options);
  follow();
}

function follow() {
  state.route = read(location.hash.slice(1));
  if (!state.setup || !collections().length) return;
  $("#query").value = state.route.q ?? "";
  showSettings(visit);
  if (state.map && String(state.map.collections) !== String(named())) redraw();
  else map.follow();
  show();
  const { doc, of } = state.route;
  if (!doc) closed();
  else if (![state.open?.id, state.open?.document].includes(doc) || state.open.collection !== of) openText({ id: doc, collection: of }, on);
}

/** Shows the view of the address, unless it is already shown. */
function show() {
  const { view = "search", q } = state.route;
  showUse();
  $("main").dataset.view = VIEWS.includes(view) ? view : "search";
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (view === "texts") return showTexts(on);
  const wanted = q ? JSON.stringify(asked()) : "home";
  if (wanted === state.shown) return;
  state.shown = wanted;
  if (q) search();
  else home();
}

function ask(words) {
  if (!state.setup) return; // not started yet
  state.shown = null; // a deliberate repetition
  visit({ ...CLOSED, at: "", q: words.trim() });
  scrollTo(0, 0); // to the first result
}

/** Shows the number of settings in use, and a button to remove each. */
function showUse() {
  const all = used();
  $("#settings-count").textContent = all.length;
  $("#settings-count").hidden = !all.length;
  $("#settings-open").setAttribute("aria-label", `Settings${all.length ? `, ${all.length} in use` : ""}`);
  const chip = (label, change) => h("li", {}, button([label, h("span", { "aria-hidden": "true" }, " ×")], () => visit(change), { class: "use", "aria-label": `Without ${label}` }));
  const chips = all.map(([name, value]) => chip(`${name.replace(/^f\./, "").replaceAll("_", " ")}: ${value}`, without(name, value)));
  if (state.route.only && state.chosen) chips.push(chip(`only in: ${state.route.region}`, { only: "" }));
  $("#active").hidden = !chips.length;
  $("#active").replaceChildren(...chips);
}

function openSettings(on) {
  $("#controls").hidden = !on;
  $("#settings-open").setAttribute("aria-expanded", String(on));
  (on ? $("#settings-close") : $("#settings-open")).focus();
}

// The open text.

function open(one, options = {}) {
  if (!mayLeave()) return;
  go({ ...state.route, doc: one.id, of: one.collection }, options);
  openText(one, on);
}

function close(options = {}) {
  const was = state.open;
  visit(CLOSED, options);
  if (state.open || !was) return;
  const row = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key(was));
  if (row) $(".open", row)?.focus();
}

function closed() {
  closeText();
  map.mark();
}

/** The texts in the list of the current view. */
const listed = () => (state.route.view === "texts" ? state.list.rows : (state.answer?.results ?? [])).filter(there);

/** The index of the open text in the list, and the list's length. */
function around() {
  const rows = listed();
  return [rows.findIndex((one) => state.open && key(one) === key(state.open)), rows.length];
}

function step(by) {
  const [at] = around();
  const next = listed()[at < 0 ? 0 : at + by];
  if (next) open(next);
}

/** Shows the current lists again, without deleted texts. */
function relist() {
  if (state.open && !there(state.open)) close({ step: false });
  map.drop();
  if (state.route.view === "texts") drawTexts(on);
  else if (state.answer) showAnswer();
  else if (state.shown === "home") showHome(on);
}

/** Called after the map is drawn: the start view suggests questions about its regions. */
function drawn() {
  if (state.shown === "home" && state.newest.length && !$("#home").contains(document.activeElement)) showHome(on);
}

function point(hit) {
  for (const element of document.querySelectorAll(".hit")) element.classList.toggle("pointed", Boolean(hit) && element.dataset.key === key(hit));
}

// The search.

async function redraw() {
  drawing?.abort();
  if (!chosen().length) return;
  const mine = (drawing = new AbortController());
  try {
    await map.load(state.route.q ? asked() : null, mine.signal);
    hideAlert();
  } catch (error) {
    if (error.name !== "AbortError") failed(error, redraw);
  }
}

async function search() {
  clearTimeout(retry);
  runningSearch?.abort();
  const mine = (runningSearch = new AbortController());
  if (!chosen().length) return failed(new Error("Choose at least one collection."), null);
  progress(1);
  $("#home").hidden = true;
  $("#results").classList.add("stale");
  $("#results-about").textContent = "Searching…";
  try {
    const wanted = asked();
    const start = performance.now();
    const answer = await call("search", wanted, mine.signal);
    Object.assign(state, { answer: { ...answer, ms: performance.now() - start }, weak: false });
    hideAlert();
    showAnswer();
    if (state.map) await map.place(wanted, mine.signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      failed(error, search);
      state.answer = null;
      nothing("There are no results: the search failed.");
      map.unplace();
    }
  } finally {
    if (runningSearch === mine) $("#results").classList.remove("stale");
    progress(-1);
  }
}

/** Shows the card of results around the list. */
function showHead(title, said = "", notes = []) {
  $("#results-title").textContent = title;
  $("#results-about").textContent = said;
  $("#notes").hidden = !notes.length;
  $("#notes").replaceChildren(...notes.map((one) => h("li", {}, one)));
  $("#bar-key").hidden = !state.answer?.results.length;
  $("#more").hidden = true;
  $("#hits").hidden = false;
  showJudgements(judged);
}

function nothing(sentence, ...more) {
  showHead("Results", "", state.answer ? sentences(state.answer) : []);
  $("#hits").replaceChildren(h("li", { class: "empty" }, h("p", {}, sentence), ...more));
}

function showAnswer() {
  const { answer } = state;
  const results = answer.results.filter(there);
  const said = sentences(answer);
  $("#home").hidden = true;
  announce(`${about(answer)}. ${said.join(" ")}`);
  if (!results.length) return nothing("Nothing fits. Try fewer or other words.", used().length > 0 && button("Search without the settings", () => visit(unset())));
  showHead("Results", about(answer), said);
  const rows = answer.results.map((one, place) => there(one) && result(one, place + 1, { open, point: map.highlight, judged }));
  $("#hits").replaceChildren(...rows.filter(Boolean)); // ranks as on the map
  showMore(answer.weak && !state.weak, results.length);
}

/** Below the list, or instead of it: buttons that show weak matches, or more. */
function showMore(folded, shown) {
  const limit = LIMITS.find((one) => Number(one) > shown);
  const more = state.answer.weak ? 0 : Math.min(state.answer.more, limit - shown);
  $("#hits").hidden = folded;
  $("#more").hidden = !folded && !(more > 0);
  $("#more").textContent = folded ? `Show ${plural(shown, "weak match", "weak matches")}` : `Show ${more} more`;
  $("#more").onclick = () => {
    if (!folded) return visit({ limit });
    state.weak = true;
    showAnswer();
  };
}

/** Called after a thumb was clicked; the focus stays on it. */
function judged() {
  const focused = document.activeElement.id;
  if (state.answer) showAnswer();
  document.getElementById(focused)?.focus();
}

/** The start view, before the first search. */
async function home() {
  runningSearch?.abort();
  state.answer = null;
  map.unplace();
  $("#results").classList.remove("stale");
  showHead("What is here");
  $("#hits").replaceChildren();
  $("#home").hidden = false;
  try {
    state.newest = (await call("list")).results;
    if (state.shown === "home") showHome(on);
  } catch (error) {
    failed(error, home);
  }
}

/** The start view of an empty store. */
function nothingYet() {
  map.busy(false);
  $("#results-title").textContent = "No collections yet";
  $("#map").classList.add("nothing");
  $("#map-notes").replaceChildren(h("p", { class: "empty" }, "The map is drawn as soon as something is stored."));
  $("#home").hidden = false;
  showEmpty({ failed, changed, progress });
}

// Errors and recovery.

function failed(error, again) {
  map.busy(false);
  if (error instanceof Refused && error.status === 401) askToken();
  $("#alert").replaceChildren(h("span", {}, error.message), again ? button("Try again", () => again()) : "");
  $("#alert").hidden = false;
  if (error instanceof Unreachable && again) retry = setTimeout(again, AGAIN);
}

function hideAlert() {
  $("#alert").hidden = true;
}

function progress(by) {
  state.running += by;
  $("#progress").hidden = !state.running;
  $("#results").setAttribute("aria-busy", String(state.running > 0));
}

function askToken() {
  const dialog = $("#access");
  const input = h("input", { id: "token-value", type: "password", autocomplete: "off", value: token.get() });
  const use = (event) => {
    event.preventDefault();
    token.set(input.value.trim());
    dialog.close();
    start();
  };
  dialog.replaceChildren(
    h("h2", { id: "access-title" }, "Access token"),
    token.get() ? h("p", { class: "failed", role: "alert" }, "This server does not accept the token that it got.") : "",
    h("p", { class: "hint" }, "This server asks who you are. The token is kept in this tab only, until it is closed."),
    h("form", { onsubmit: use }, h("label", { htmlFor: "token-value" }, "Token"), input, h("footer", {}, button("Cancel", () => dialog.close()), h("button", { type: "submit", class: "primary" }, "Use it"))),
  );
  if (!dialog.open) dialog.showModal();
}
