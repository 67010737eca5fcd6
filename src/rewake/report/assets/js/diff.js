// Differences of files.

import { h } from "./dom.js";
import { fileName, highlighted, many, number } from "./text.js";

const CLASS = { "+": "add", "-": "del", "@": "hunk", "!": "note", "\\": "note" };

/** One file's difference: its name, its counts, its lines. */
export function diffBlock(diff) {
  return h(
    "figure",
    { class: "diff" },
    h("figcaption", {}, fileName(diff), " ", counts(diff)),
    diff.problem ? h("p", { class: "muted" }, diff.problem) : diffLines(diff),
  );
}

export function counts(diff) {
  const kind = diff.kind && diff.kind !== "changed" ? h("span", { class: "badge" }, diff.kind) : null;
  return h(
    "span",
    { class: "counts" },
    kind,
    diff.added ? h("span", { class: "added" }, `+${number(diff.added)}`) : null,
    diff.removed ? h("span", { class: "removed" }, `−${number(diff.removed)}`) : null,
  );
}

export function diffLines(diff) {
  const lines = (diff.lines ?? []).map(([sign, ...pairs]) =>
    h(
      "span",
      { class: `line ${CLASS[sign] ?? "same"}` },
      h("span", { class: "sign", "aria-label": sign === "+" ? "added" : sign === "-" ? "removed" : null }, sign === "@" || sign === "!" ? "" : sign),
      highlighted(pairs),
      "\n",
    ),
  );
  if (diff.leftOut) lines.push(h("span", { class: "cut" }, `… ${many(diff.leftOut, "more line")} · rewake diff shows all …`));
  return h("pre", { class: "lines", tabindex: "0", role: "group", "aria-label": `Changes of ${diff.path}` }, lines);
}
