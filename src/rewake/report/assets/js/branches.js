// The branches as a tree of buttons, and the prompts of the one that is shown.

import { h, icon } from "./dom.js";
import { clock, many } from "./text.js";
import { branchesOf } from "./rows.js";

const PROMPTS_SHOWN = 300;

/** `chosen` is the branch that is shown; `choose(number)` shows another one. */
export function branchTree(head, chosen, choose) {
  const found = branchesOf(head.segments, head.current);
  if (found.length < 2) return null;
  const ordered = [...found].reverse();
  return h(
    "nav",
    { class: "branches", "aria-label": "Branches" },
    h("h2", {}, icon("branch"), "Branches ", h("span", { class: "muted" }, found.length)),
    h("ul", {}, ordered.map((branch) => branchItem(branch, head, chosen, choose))),
  );
}

function branchItem(branch, head, chosen, choose) {
  const isCurrent = branch.number === head.current;
  const label = branchLabel(branch, head);
  const from = branch.parent >= 0 ? `left at row ${branch.cut}` : "from the beginning";
  return h(
    "li",
    { class: isCurrent ? "current" : "left" },
    h(
      "button",
      { type: "button", "aria-current": branch.number === chosen ? "true" : null, "data-branch": branch.number, onclick: () => choose(branch.number) },
      h("span", { class: "label", dir: "auto" }, label || (isCurrent ? "Nothing said yet" : "…")),
      h("span", { class: "muted" }, `${isCurrent ? "active" : from} · ${many(branch.rows, "message")} · ${clock(branch.time)}`),
    ),
  );
}

/** What was said first where it went its own way. */
function branchLabel(branch, head) {
  const left = head.segments.filter(([parent]) => parent === branch.number).map(([, cut]) => cut);
  const from = left.length ? Math.max(...left) : branch.cut;
  const own = head.promptRows.find(([row, , , segment]) => segment === branch.number && row >= from);
  return own?.[1] || branch.label;
}

/** Where to go: the prompts among these rows. */
export function promptList(head, rows, goTo) {
  const shown = new Set(rows);
  const prompts = head.promptRows.filter(([row]) => shown.has(row));
  if (prompts.length < 2) return null;
  const newest = prompts.slice(-PROMPTS_SHOWN);
  return h(
    "nav",
    { class: "prompts", "aria-label": "Prompts" },
    h("h2", {}, "Prompts ", h("span", { class: "muted" }, prompts.length)),
    newest.length < prompts.length ? h("p", { class: "muted" }, `the newest ${newest.length}`) : null,
    h(
      "ol",
      {},
      newest.map(([row, label, time]) =>
        h("li", {}, h("button", { type: "button", onclick: () => goTo(row) }, h("span", { class: "label", dir: "auto" }, label || "(no text)"), h("span", { class: "muted" }, clock(time)))),
      ),
    ),
  );
}
