// A sentence at the foot of the page, and a deed that can be undone for as long as it stands there.

import { $, h } from "./dom.js";

const SECONDS = 8;
let pending = null; // { act, timer }

function settle() {
  if (!pending) return;
  const { act, timer } = pending;
  pending = null;
  clearTimeout(timer);
  $("#toast").hidden = true;
  act();
}
addEventListener("pagehide", settle);

export function say(sentence) {
  settle();
  $("#toast").replaceChildren(h("span", {}, sentence));
  $("#toast").hidden = false;
  pending = { act: () => {}, timer: setTimeout(settle, SECONDS * 1000) };
}

/** Does `act` in a few seconds, or when the page is left, unless the reader takes it back. */
export function later(sentence, act, undone) {
  settle();
  const back = () => {
    clearTimeout(pending.timer);
    pending = null;
    $("#toast").hidden = true;
    undone();
  };
  $("#toast").replaceChildren(h("span", {}, sentence), h("button", { type: "button", onclick: back }, "Undo"));
  $("#toast").hidden = false;
  pending = { act, timer: setTimeout(settle, SECONDS * 1000) };
}
