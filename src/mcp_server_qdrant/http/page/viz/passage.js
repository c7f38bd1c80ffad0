// One stored text in full, in a panel beside the map: its parts, its origin, what is like it, and changes to it.

import { call } from "./api.js";
import { $, clip, fixed, gone, h, key } from "./dom.js";
import { say } from "./toast.js";
import { marked } from "./words.js";

const HEAD = 90; // pixels above the part that was found
const AROUND = 20; // parts; the text of more is read in pieces
const LIKE = 6; // texts like this one
const ASKED = 600; // characters of a text that they are asked for by

let current = null; // what is open, and for whom
let typed = () => false; // whether something was typed that is not stored

/** True where nothing typed would be lost, or the reader does not mind. */
export const mayLeave = () => !typed() || confirm("Drop what you have typed?");
addEventListener("beforeunload", (event) => typed() && event.preventDefault());

/** Only addresses of the web are links; a text may hold anything. */
export function linkable(source) {
  try {
    return ["http:", "https:"].includes(new URL(source).protocol);
  } catch {
    return false;
  }
}

export function closeText() {
  current = null;
  typed = () => false;
  $("#passage").hidden = true;
}

function frame(title, ...body) {
  typed = () => false;
  const { before, after, place, close } = current.around();
  const button = (label, sign, act) => h("button", { type: "button", class: "icon close", "aria-label": label, title: label, disabled: !act, onclick: act }, sign);
  const heading = h("h2", { id: "passage-title", dir: "auto", tabIndex: -1 }, title);
  $("#passage").replaceChildren(
    h("header", {}, heading, h("span", { class: "count" }, place), button("Previous (k)", "‹", before), button("Next (j)", "›", after), button("Close", "×", close)),
    ...body,
  );
  $("#passage").hidden = false;
  heading.focus({ preventScroll: true });
  $("#passage").scrollTop = 0;
}

/** A value of the metadata as a person writes it. */
function readable(value) {
  if (Array.isArray(value) && value.every((one) => typeof one !== "object")) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A link where it is one, else what can be copied. */
function origin(source) {
  if (linkable(source)) return h("a", { href: source, target: "_blank", rel: "noopener noreferrer" }, source);
  const copy = h("button", { type: "button", class: "link", onclick: () => navigator.clipboard.writeText(source).then(() => (copy.textContent = "Copied")) }, "Copy");
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

/** The text, the part that was found marked as such. */
function body(one, part, query) {
  const holder = h("div", { class: "text", tabIndex: 0, role: "region", "aria-label": "Text", dir: "auto" });
  const from = part ? one.text.indexOf(part) : -1;
  if (from < 0 || part.length === one.text.length) holder.append(...marked(one.text, query));
  else {
    const here = h("div", { class: "part-found" }, marked(part, query));
    holder.append(...marked(one.text.slice(0, from), query), here, ...marked(one.text.slice(from + part.length), query));
    requestAnimationFrame(() => $("#passage").scrollTo(0, here.offsetTop - HEAD));
  }
  return holder;
}

/** A text, with so many parts before and after the one that is asked for. */
const read = async (collection, id, neighbours = 0) => {
  const answer = await call("text", { collection, id, neighbours });
  return { ...answer.documents[0], notes: answer.notes };
};

/**
 * Opens the text of a point; a failure is said where the text would be. `on`: query, setup, open(text),
 * around() (what is before and after it, its place, close), opened(text), left(), changed().
 */
export async function openText({ id, collection, title }, on) {
  const mine = (current = on);
  const still = () => current === mine;
  frame(title || "Text", h("p", { class: "loading" }, "Loading the text…"));
  try {
    let one = await read(collection, id);
    const part = one.part ? one.text : null;
    if (part) one = await read(collection, one.document, AROUND);
    if (part && one.part && !one.text.includes(part)) one = await read(collection, id, AROUND);
    if (!still()) return;
    on.opened(one);
    show(one, part, on);
  } catch (error) {
    if (still()) frame(title || "Text", h("p", { class: "failed", role: "alert" }, error.message));
  }
}

function show(one, part, on) {
  const { may, collections } = on.setup;
  const whole = !one.notes.length && !one.part; // a part that is stored would take the place of all
  const like = h("section", { class: "like", "aria-label": "Texts like this one" });
  const button = (label, act, kind = "") => h("button", { type: "button", class: kind, onclick: act }, label);
  const others = collections.map(({ name }) => name).filter((name) => name !== one.collection);
  const place = h("select", { "aria-label": "Move to" }, h("option", { value: "" }, "Move to…"), others.map((name) => h("option", { value: name }, name)));
  place.addEventListener("change", () => place.value && move(one, place.value, on));
  frame(
    one.title || clip(one.text, 80) || "Text",
    details(one),
    one.superseded_by
      ? h("p", { class: "notes" }, "A newer text stands for this one. ", button("Open it", () => on.open({ id: one.superseded_by, collection: one.collection }), "link"))
      : "",
    body(one, part, on.query),
    ...one.notes.map((note) => h("p", { class: "hint" }, note)),
    like,
    h(
      "footer",
      {},
      button("More like this", () => showLike(like, one, on)),
      one.until ? "" : button("Earlier versions", () => showVersions(like, one, on)),
      one.until && may.store ? button("Bring it back", () => bringBack(one, on), "primary") : "",
      may.store && whole ? button("Edit", () => edit(one, part, on)) : "",
      may.delete && may.store && whole && others.length ? place : "",
      may.delete && !one.until ? button("Delete", () => remove(one, on), "danger") : "",
    ),
  );
}

/** What lies near it: found by its own words, as an agent would. */
async function showLike(holder, one, on) {
  holder.replaceChildren(h("p", { class: "loading" }, "Looking for texts like this one…"));
  try {
    const query = clip(`${one.title ?? ""} ${one.text}`.trim(), ASKED);
    const { results } = await call("search", { query, collections: ["*"], limit: LIKE + 1, correct: false });
    const own = (hit) => key(hit) === key(one);
    const copies = results.filter(own).flatMap((hit) => hit.also_in ?? []);
    const rows = results.filter((hit) => !own(hit)).slice(0, LIKE);
    const line = (hit, said) =>
      h("li", {}, h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.open(hit) }, clip(hit.title || hit.text || hit.id, 90)), h("span", { class: "where" }, said));
    holder.replaceChildren(
      h("h3", { class: "subhead" }, "Like this one"),
      h("ul", { class: "newest" }, copies.map((copy) => line(copy, `the same text in ${copy.collection}`)), rows.map((hit) => line(hit, `${hit.collection}, ${fixed(hit.relevance)}`))),
      copies.length + rows.length ? "" : h("p", { class: "hint" }, "Nothing is like it."),
    );
  } catch (error) {
    holder.replaceChildren(h("p", { class: "failed" }, error.message));
  }
}

/** What it was before somebody replaced it. */
async function showVersions(holder, one, on) {
  holder.replaceChildren(h("p", { class: "loading" }, "Looking for earlier versions…"));
  try {
    const { versions } = await call("versions", { id: one.id, collection: one.collection });
    const line = (version) =>
      h(
        "li",
        {},
        h("button", { type: "button", class: "open", dir: "auto", onclick: () => on.open(version) }, clip(version.title || version.text, 90)),
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

/** A text as it was read: a change of one that somebody else has changed since is refused. */
const where = (one) => ({ id: one.id, collection: one.collection, seen: one.revision });

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
      const { before } = await call("save", { ...where(one), title: title.value.trim(), text: text.value, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean) });
      const undo = () => restore(before, one, on).then((back) => back && on.open(one, { step: false }));
      say("Saved.", before && undo);
      on.changed();
      openText({ ...one, title: title.value }, on);
    } catch (error) {
      save.disabled = false;
      const now = await read(one.collection, one.id).catch(() => one);
      if (now.revision === one.revision) return (fault.textContent = error.message);
      one.revision = now.revision;
      fault.replaceChildren(
        h("p", {}, "Somebody else has changed this text since you opened it. What you typed is still here; Save puts it in the place of theirs."),
        h("details", {}, h("summary", {}, "Their text"), h("div", { class: "text", dir: "auto" }, now.text)),
      );
    }
  };
  frame(
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
      h("footer", {}, h("button", { type: "button", onclick: () => mayLeave() && show(one, part, on) }, "Cancel"), save),
    ),
  );
  typed = () => written() !== before;
  title.focus();
}

/** Deletes a text, out of sight at once; where the server keeps none, only what the reader is sure of. */
async function remove(one, on) {
  if (!on.setup.days && !confirm("Delete this text for good?")) return;
  gone.add(key(one));
  on.left();
  try {
    const [{ version }] = (await call("delete", where(one))).documents;
    say(`“${clip(one.title || one.text, 40)}” is deleted.`, version && (() => restore(version, one, on)));
    await on.changed();
    gone.delete(key(one));
  } catch (error) {
    gone.delete(key(one));
    on.changed();
    say(`It was not deleted: ${error.message}`);
  }
}

/** Brings an earlier version of a text back. */
async function restore(id, one, on) {
  try {
    const back = await call("restore", { id, collection: one.collection });
    gone.delete(key(one));
    say("It is back.", back.before && (() => restore(back.before, one, on)));
    on.changed();
    return back;
  } catch (error) {
    say(error.message);
  }
}

async function move(one, to, on) {
  try {
    const done = await call("move", { ...where(one), to });
    say(`Moved to ${done.collection}.`);
    on.changed();
    on.open({ id: done.id, collection: done.collection, title: one.title }, { step: false });
  } catch (error) {
    say(error.message);
  }
}
