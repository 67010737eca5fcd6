// The keyboard. Letters work wherever nothing is typed into; everything else is what browsers do anyway.

import { h, icon } from "./dom.js";

const HELP = [
  ["j, ↓", "next row"],
  ["k, ↑", "previous row"],
  ["Enter, o", "unfold or fold the row"],
  ["/", "search"],
  ["n, N", "next, previous hit"],
  ["g, G", "to the beginning, to the end"],
  ["e", "unfold or fold all calls"],
  ["1 – 6", "conversation, files, interrupted, agents, runs, health"],
  ["t", "light, dark, as the system"],
  ["?", "this help"],
  ["Esc", "leave the search or this help"],
];

/** `actions`: from a key to what it does with the event. */
export function listenToKeys(actions) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = event.target;
    const isTyping = at.matches?.("input, textarea, select") ?? false;
    if (isTyping && event.key !== "Escape") return;
    const isControl = at.matches?.("button, summary, a, [role=tab]") ?? false;
    if (isControl && (event.key === "Enter" || event.key.startsWith("Arrow"))) return;
    const action = actions[event.key];
    if (action && action(event) !== false) event.preventDefault();
  });
}

export function helpDialog() {
  const dialog = h(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    h("header", {}, h("h2", {}, "Keys"), h("button", { class: "tool-button", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    h("dl", {}, HELP.map(([keys, what]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)])),
  );
  return dialog;
}
