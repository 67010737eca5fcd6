// Everything beside the conversation: changed files by turn, interrupted actions, sub-agents, runs, health.

import { h, icon } from "./dom.js";
import { counts, diffLines } from "./diff.js";
import { verdictBlock } from "./items.js";
import { bytes, clock, duration, fileName, many, moment, money, number, short, words } from "./text.js";

const TURNS_SHOWN = 100;

/** `page` has `goTo(row)`, `contentOf(row)`, `fileContent(item)`, `openAgent(id)`. */
export function filesPanel(told, page) {
  const turns = [...told.turns].reverse();
  if (turns.length === 0) return [h("p", { class: "empty" }, "No file was changed.")];
  const made = [];
  if (told.leftOut) made.push(h("p", { class: "muted" }, `${many(told.leftOut, "older turn")} left out; rewake diff shows all.`));
  const list = h("div", { class: "turns" });
  let shown = 0;
  const more = h("button", { class: "plain", type: "button", onclick: () => grow() });
  const grow = () => {
    list.append(...turns.slice(shown, shown + TURNS_SHOWN).map((turn) => turnBlock(turn, page)));
    shown = Math.min(turns.length, shown + TURNS_SHOWN);
    more.hidden = shown >= turns.length;
    more.textContent = `Show ${Math.min(TURNS_SHOWN, turns.length - shown)} older turns of ${turns.length - shown}`;
  };
  grow();
  return [...made, list, more];
}

function turnBlock(turn, page) {
  const added = turn.files.reduce((sum, file) => sum + (file.added ?? 0), 0);
  const removed = turn.files.reduce((sum, file) => sum + (file.removed ?? 0), 0);
  return h(
    "section",
    { class: "turn" },
    h(
      "header",
      {},
      turn.row >= 0 ? h("button", { class: "link", type: "button", onclick: () => page.goTo(turn.row) }, h("span", { dir: "auto" }, turn.label || "(no text)")) : h("span", {}, "Before the first prompt"),
      h("span", { class: "muted" }, ` ${clock(turn.time)} · ${many(turn.files.length, "file")} `),
      counts({ added, removed }),
    ),
    turn.files.map((file) => fileBlock(file, page)),
  );
}

function fileBlock(file, page) {
  const body = h("div", { class: "file-body" });
  const load = async () => {
    if (body.firstChild) return;
    const diff = file.diff ?? (file.item === undefined ? (await page.contentOf(file.of[0]))?.diffs?.[file.of[1]] : await page.fileContent(file.item));
    if (!diff) body.append(h("p", { class: "muted" }, "This difference was left out, so that the page stays small. rewake diff shows it."));
    else if (diff.problem) body.append(h("p", { class: "muted" }, diff.problem));
    else body.append(diffLines(diff));
    if (file.of) body.append(h("button", { class: "link", type: "button", onclick: () => page.goTo(file.of[0]) }, "Show the call"));
  };
  return h("details", { class: "file", ontoggle: (event) => event.target.open && load() }, h("summary", {}, icon("chevron"), fileName(file), " ", counts(file)), body);
}

export function interruptedPanel(head, page) {
  if (head.interrupted.length === 0) return [h("p", { class: "empty" }, "No action was interrupted.")];
  return head.interrupted.map((action) =>
    h(
      "section",
      { class: "action" },
      h("header", {}, h("button", { class: "link", type: "button", onclick: () => page.goTo(action.row) }, h("span", { class: "tool" }, action.name), " ", h("bdi", { class: "about" }, action.about)), h("span", { class: `badge verdict ${action.verdict}` }, words(action.verdict)), h("span", { class: "muted" }, ` ${clock(action.time)}`)),
      verdictBlock(action, "h3"),
    ),
  );
}

export function agentsPanel(head, page) {
  if (head.agents.length === 0) return [h("p", { class: "empty" }, "No sub-agent was at work.")];
  const rows = head.agents.map((agent) =>
    h(
      "li",
      {},
      h("strong", {}, agent.type || "Sub-agent"),
      ` ${agent.task ?? ""} `,
      agent.status ? h("span", { class: "badge" }, words(agent.status)) : null,
      h("span", { class: "muted" }, ` ${agent.id} `),
      agent.here ? h("button", { class: "plain", type: "button", onclick: () => page.openAgent(agent.id, agent.row) }, "Show its conversation") : h("span", { class: "muted" }, "no transcript here"),
    ),
  );
  const left = head.agentsLeftOut ? h("p", { class: "muted" }, `The conversations of ${many(head.agentsLeftOut, "sub-agent")} were left out; rewake view shows them.`) : null;
  return [h("ul", { class: "agents" }, rows), left];
}

export function runsPanel(head) {
  const runRows = head.runs.map((run) =>
    h("tr", {}, h("td", {}, number(run.number)), h("td", {}, moment(run.begun)), h("td", {}, run.ended ? `${moment(run.ended)} (${words(run.reason)})` : "no end recorded"), h("td", {}, run.model || "–"), h("td", {}, run.mode || "–"), h("td", {}, run.version || "–"), h("td", {}, `${run.host || "–"} · ${run.pid || "–"}`), h("td", {}, h("bdi", {}, run.cwd || "–"))),
  );
  const modelRows = head.models.map((model) =>
    h("tr", {}, h("td", {}, model.name), h("td", {}, number(model.steps)), h("td", {}, short(model.input)), h("td", {}, short(model.cacheRead)), h("td", {}, short(model.cacheWrite)), h("td", {}, short(model.output)), h("td", {}, money(model.cost))),
  );
  return [
    table("Models", ["Model", "Answers", "Tokens in", "from cache", "to cache", "out", "Cost"], modelRows),
    table("Runs", ["Run", "Begun", "Ended", "Model", "Permissions", "Version", "Host · process", "Directory"], runRows),
    facts(head),
  ];
}

function table(title, columns, rows) {
  return h("section", {}, h("h3", {}, title), h("div", { class: "table", tabindex: "0", role: "group", "aria-label": title }, h("table", {}, h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows))));
}

function facts(head) {
  const kinds = Object.entries(head.redacted ?? {});
  const redaction = head.redacted === null ? "off: this page may hold keys and passwords" : kinds.length ? `${kinds.map(([kind, count]) => `${count} × ${kind}`).join(", ")} taken out` : "on: no secret was found";
  const list = [
    ["Session", head.id],
    ["Project", head.project || "–"],
    ["Transcript", bytes(head.bytes)],
    ["Working time", duration(head.workingMs)],
    ["Redaction", `${redaction}. No detector finds everything.`],
    ["Page", head.made ? `made ${moment(head.made)} by Rewake ${head.version}` : `live, Rewake ${head.version}`],
  ];
  return h("section", {}, h("h3", {}, "This page"), h("dl", { class: "facts" }, list.map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("bdi", {}, value))])));
}

const SEVERITY = { error: "bad", warning: "warn", info: "" };

export function healthPanel(told) {
  if (told === null) return [h("p", { class: "empty" }, "Nobody looked for damage.")];
  const notes = told.findings.filter((finding) => finding.severity === "info");
  const made = told.findings.filter((finding) => finding.severity !== "info").map(findingBlock);
  const count = Object.values(told.counts).reduce((sum, number) => sum + number, 0);
  made.unshift(h("p", { class: told.ok ? "empty good" : "empty" }, told.ok ? "No damage was found." : "Something is damaged or missing."));
  if (count > told.findings.length) made.push(h("p", { class: "muted" }, `Of ${many(count, "finding")} the first ${told.findings.length} are listed; rewake check counts all.`));
  if (notes.length) made.push(h("details", { class: "arguments" }, h("summary", {}, many(notes.length, "remark")), notes.map(findingBlock)));
  return made;
}

function findingBlock(finding) {
  return h(
    "section",
    { class: "finding" },
    h("header", {}, h("span", { class: `badge ${SEVERITY[finding.severity] ?? ""}` }, finding.severity), " ", h("strong", {}, words(finding.kind)), h("span", { class: "muted" }, finding.line_number ? ` line ${number(finding.line_number)}, byte ${number(finding.offset ?? 0)}` : "")),
    h("p", { dir: "auto" }, finding.detail),
    h("p", { class: "muted" }, `${finding.consequence} ${finding.remedy}`),
  );
}
