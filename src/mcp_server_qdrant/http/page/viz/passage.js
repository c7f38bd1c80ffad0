// The panel beside the map with one whole text: its parts, origin, similar texts, and edits.

import { call } from "./api.js";
import { $, button, clip, fixed, gone, h, key, toast } from "./dom.js";
import { collections, state } from "./state.js";
import { showWhy } from "./why.js";
import { marked } from "./words.js";

const AROUND = 20; // parts before and after; longer texts are read in pieces
const LIKE = 6; // similar texts
const ASKED = 600; // characters of the text used to search for them

let typed = () => false; // whether there are unsaved changes

export const hasTyped = () => typed();
/** True if there are no unsaved changes, or the reader discards them. */
export const mayLeave = () => !typed() || confirm("Discard what you have typed?");

/** Only web addresses are links; a text may contain anything. */
export function linkable(source) {
  try {
    return ["http:", "https:"].includes(new URL(source).protocol);
  } catch {
    return false;
  }
}

export function closeText() {
  state.open = null;
  typed = () => false;
  $("#passage").hidden = true;
}

/** Callbacks of `on`: open(text), close(), step(by), opened(), left(), changed(); `around()` gives the index in the list. */
function frame(on, title, ...body) {
  typed = () => false;
  const [at, count] = on.around();
  const sign = (label, text, act, off = false) => button(text, act, { class: "icon close", "aria-label": label, title: label, disabled: off });
  const heading = h("h2", { id: "passage-title", dir: "auto", tabIndex: -1 }, title);
  $("#passage").replaceChildren(
    h(
      "header",
      {},
      heading,
      h("span", { class: "count" }, at < 0 ? "" : `${at + 1} of ${count}`),
      sign("Previous (k)", "‹", () => on.step(-1), at < 1),
      sign("Next (j)", "›", () => on.step(1), at < 0 || at === count - 1),
      sign("Close", "×", on.close),
    ),
    ...body,
  );
  $("#passage").hidden = false;
  heading.focus({ preventScroll: true });
  $("#passage").scrollTop = 0;
}

/** A metadata value as readable text. */
function readable(value) {
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A link if it is one, otherwise text to copy. */
function origin(source) {
  if (linkable(source)) return h("a", { href: source, target: "_blank", rel: "noopener noreferrer" }, source);
  const copy = button("Copy", () => navigator.clipboard.writeText(source).then(() => (copy.textContent = "Copied")), { class: "link" });
  return [source, " ", copy];
}

function details(one) {
  const rows = [
    ["Collection", one.collection],
    ["Part", one.part],
    ["Tags", one.tags?.join(", ")],
    ["Created", one.created_at],
    ["Source", one.source && origin(one.source)],
    ["Id", one.document ?? one.id],
    ...Object.entries(one.metadata ?? {}).filter(([name]) => !["created_at", "source", "tags", "title"].includes(name)).map(([name, value]) => [name, readable(value)]),
  ].filter(([, value]) => value);
  return h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { dir: "auto" }, value))));
}

/** The text, with the found part marked. */
function body(one, part, query) {
  const holder = h("div", { class: "text", tabIndex: 0, role: "region", "aria-label": "Text", dir: "auto" });
  const from = part ? one.text.indexOf(part) : -1;
  if (from < 0 || part.length === one.text.length) holder.append(...marked(one.text, query));
  else {
    const here = h("span", { class: "part-found" }, marked(part, query));
    holder.append(...marked(one.text.slice(0, from), query), here, ...marked(one.text.slice(from + part.length), query));
    requestAnimationFrame(() => $("#passage").scrollTo(0, here.offsetTop - $("#passage > header").offsetHeight - 8));
  }
  return holder;
}

/** A text, with this number of parts before and after the requested one. */
const read = async (collection, id, neighbours = 0) => {
  const answer = await call("get", { ids: [id], collection_name: collection, neighbours, point_ids: true });
  return { ...answer.documents[0], notes: answer.notes };
};

/** Opens the text of a point; an error is shown in place of the text. */
export async function openText({ id, collection, document, title }, on) {
  const mine = (state.open = { id, collection, document });
  const still = () => state.open === mine;
  frame(on, title || "Text", h("p", { class: "loading" }, "Loading the text…"));
  try {
    let one = await read(collection, id);
    const part = one.part ? one.text : null;
    if (part) one = await read(collection, one.document, AROUND);
    if (part && one.part && !one.text.includes(part)) one = await read(collection, id, AROUND);
    if (!still()) return;
    mine.document = one.document;
    on.opened();
    show(one, part, on);
  } catch (error) {
    if (still()) frame(on, title || "Text", h("p", { class: "failed", role: "alert" }, error.message));
  }
}

function show(one, part, on) {
  const { may } = state.setup;
  const whole = !one.notes.length && !one.part; // storing a single part would replace the whole text
  const like = h("section", { class: "like", "aria-label": "Texts like this one" });
  const others = collections().map(({ name }) => name).filter((name) => name !== one.collection);
  const place = h("select", { "aria-label": "Move to" }, h("option", { value: "" }, "Move to…"), others.map((name) => h("option", { value: name }, name)));
  place.addEventListener("change", () => place.value && move(one, place.value, on));
  frame(
    on,
    one.title || clip(one.text, 80) || "Text",
    details(one),
    one.superseded_by
      ? h("p", { class: "notes" }, "A newer text replaces this one. ", button("Open it", () => on.open({ id: one.superseded_by, collection: one.collection }), { class: "link" }))
      : "",
    body(one, part, state.route.q),
    ...one.notes.map((note) => h("p", { class: "hint" }, note)),
    like,
    h(
      "footer",
      {},
      button("More like this", () => showLike(like, one, on)),
      state.route.q && !one.until ? button("Why not?", () => showWhy(like, one)) : "",
      one.until ? "" : button("Earlier versions", () => showVersions(like, one, on)),
      one.until && may.store ? button("Bring it back", () => bringBack(one, on), { class: "primary" }) : "",
      may.store && whole ? button("Edit", () => edit(one, part, on)) : "",
      may.delete && may.store && whole && others.length ? place : "",
      may.delete && !one.until ? button("Delete", () => remove(one, on), { class: "danger" }) : "",
    ),
  );
}

/** Similar texts: a search with the text's own words. */
async function showLike(holder, one, on) {
  holder.replaceChildren(h("p", { class: "loading" }, "Looking for texts like this one…"));
  try {
    const query = clip(`${one.title ?? ""} ${one.text}`.trim(), ASKED);
    const { results } = await call("search", { query, collections: ["*"], limit: LIKE + 1, correct: false });
    const own = (hit) => key(hit) === key(one);
    const copies = results.filter(own).flatMap((hit) => hit.also_in ?? []);
    const rows = results.filter((hit) => !own(hit)).slice(0, LIKE);
    const line = (hit, said) =>
      h("li", {}, button(clip(hit.title || hit.text || hit.id, 90), () => on.open(hit), { class: "open", dir: "auto" }), h("span", { class: "where" }, said));
    holder.replaceChildren(
      h("h3", { class: "subhead" }, "Like this one"),
      h("ul", { class: "newest" }, copies.map((copy) => line(copy, `the same text in ${copy.collection}`)), rows.map((hit) => line(hit, `${hit.collection}, ${fixed(hit.relevance)}`))),
      copies.length + rows.length ? "" : h("p", { class: "hint" }, "There is no similar text."),
    );
  } catch (error) {
    holder.replaceChildren(h("p", { class: "failed" }, error.message));
  }
}

/** The earlier versions of the text. */
async function showVersions(holder, one, on) {
  holder.replaceChildren(h("p", { class: "loading" }, "Looking for earlier versions…"));
  try {
    const { versions } = await call("get", { ids: [one.id], collection_name: one.collection, versions: true });
    const line = (version) =>
      h(
        "li",
        {},
        button(clip(version.title || version.text, 90), () => on.open(version), { class: "open", dir: "auto" }),
        h("span", { class: "where" }, `until ${new Date(version.until).toLocaleString()}, ${version.by.caller ?? version.by.client ?? ""}`),
      );
    holder.replaceChildren(h("h3", { class: "subhead" }, "Earlier versions"), h("ul", { class: "newest" }, versions.map(line)));
  } catch (error) {
    holder.replaceChildren(h("p", { class: "hint" }, error.message));
  }
}

async function bringBack(version, on) {
  const back = await restore(version.id, version, on);
  if (back) on.open({ id: back.id, collection: back.collection, title: version.title }, { step: false });
}

/** Identifies a text as it was read: the server refuses an edit if the text has changed since. */
const where = (one) => ({ collection_name: one.collection, seen: one.revision });

function edit(one, part, on) {
  const title = h("input", { id: "edit-title", type: "text", value: one.title ?? "", maxlength: 1000, dir: "auto" });
  const tags = h("input", { id: "edit-tags", type: "text", value: (one.tags ?? []).join(", "), dir: "auto" });
  const text = h("textarea", { id: "edit-text", rows: 14, required: true, dir: "auto", value: one.text });
  const fault = h("div", { class: "failed", role: "alert" });
  const save = h("button", { type: "submit", class: "primary" }, "Save");
  const written = () => JSON.stringify([title.value.trim(), tags.value, text.value]);
  const before = written();
  const stored = async (event) => {
    event.preventDefault();
    save.disabled = true;
    try {
      const { before } = await call("store", { ...where(one), id: one.id, title: title.value.trim(), information: text.value, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) });
      const undo = () => restore(before, one, on).then((back) => back && on.open(one, { step: false }));
      toast("Saved.", before && undo);
      typed = () => false;
      on.open({ ...one, title: title.value }, { step: false }); // the found part may not exist any more
      on.changed();
    } catch (error) {
      save.disabled = false;
      const now = await read(one.collection, one.id).catch(() => one);
      if (now.revision === one.revision) return (fault.textContent = error.message);
      one.revision = now.revision;
      fault.replaceChildren(
        h("p", {}, "Somebody else has changed this text since you opened it. What you typed is still here; Save replaces theirs."),
        h("details", {}, h("summary", {}, "Their text"), h("div", { class: "text", dir: "auto" }, now.text)),
      );
    }
  };
  frame(
    on,
    "Edit",
    one.source && !linkable(one.source) ? h("p", { class: "hint" }, `This text comes from ${one.source}: when that file changes, it replaces what you write here.`) : "",
    h(
      "form",
      { class: "edit", onsubmit: stored },
      h("label", { htmlFor: "edit-title" }, "Title"),
      title,
      h("label", { htmlFor: "edit-tags" }, "Tags, by comma"),
      tags,
      h("label", { htmlFor: "edit-text" }, "Text"),
      text,
      fault,
      h("footer", {}, button("Cancel", () => mayLeave() && show(one, part, on)), save),
    ),
  );
  typed = () => written() !== before;
  title.focus();
}

/** Deletes a text, hidden at once; if the server keeps no versions, only after a confirmation. */
async function remove(one, on) {
  if (!state.setup.days && !confirm("Delete this text for good?")) return;
  gone.add(key(one));
  on.left();
  try {
    const [{ version }] = (await call("delete", { ...where(one), ids: [one.id] })).documents;
    toast(`“${clip(one.title || one.text, 40)}” is deleted.`, version && (() => restore(version, one, on)));
    on.changed();
  } catch (error) {
    gone.delete(key(one));
    on.changed();
    toast(`It was not deleted: ${error.message}`);
  }
}

/** Restores an earlier version of a text. */
async function restore(id, one, on) {
  try {
    const back = await call("store", { id, collection_name: one.collection });
    gone.delete(key(one));
    toast("It is back.", back.before && (() => restore(back.before, one, on)));
    on.changed();
    return back;
  } catch (error) {
    toast(error.message);
  }
}

async function move(one, to, on) {
  try {
    const done = await call("store", { ...where(one), id: one.id, moved_from: one.collection, collection_name: to });
    gone.add(key(one)).delete(key({ ...one, collection: done.collection }));
    toast(`Moved to ${done.collection}.`);
    on.changed();
    on.open({ id: done.id, collection: done.collection, title: one.title }, { step: false });
  } catch (error) {
    toast(error.message);
  }
}
