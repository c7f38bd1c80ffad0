// A sentence at the foot of the page, and a way back for as long as it stands there.

import { $, h } from "./dom.js";

const SECONDS = 8;
let timer = null;

/** Says what was done; `undo` takes it back. */
export function say(sentence, undo = null) {
  const hide = () => ($("#toast").hidden = true);
  const back = () => {
    hide();
    undo();
  };
  clearTimeout(timer);
  timer = setTimeout(hide, SECONDS * 1000);
  $("#toast").replaceChildren(h("span", {}, sentence), undo ? h("button", { type: "button", onclick: back }, "Undo") : "");
  $("#toast").hidden = false;
}
