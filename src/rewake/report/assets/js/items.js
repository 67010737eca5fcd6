// One row of the conversation as an element. What can be folded is, until somebody looks.

import { h, icon } from "./dom.js";
import { counts, diffBlock } from "./diff.js";
import { bytes, clock, cutText, duration, fileName, highlighted, many, moment, nodes, short, words } from "./text.js";

export const ERROR = 1;
export const VERDICT = 2;
export const OPEN = 4;
export const CUT = 8;
export const AGENT = 16;
export const CHANGES = 32;

const VERDICTS = {
  applied: "it was done",
  not_applied: "it was not done",
  partial: "it was done in part",
  still_running: "it is still running",
  lost: "it was done, and was lost again",
  unknown: "nobody can tell",
};
const STATES = { asked: "not begun", requested: "not begun", started: "running", completed: "done", failed: "failed", resolved: "settled" };

/** `context`: `id` of the session, `isOpen(key)`, `toggle(key)`, `openAgent(id, place)`, `hasAgent(id)`. */
export function rowElement(kind, content, { key, time, flags, depth, context }) {
  const article = h("article", { class: `row ${kind}`, tabindex: "-1", "data-key": key });
  if (depth > 0) article.classList.add("nested", `depth-${Math.min(depth, 3)}`);
  if (content === undefined) {
    article.classList.add("waiting");
    article.append(h("p", { class: "muted" }, "…"));
    return article;
  }
  if (content === null) {
    article.append(h("p", { class: "muted" }, `This ${kind} was left out, so that the page stays small. `, h("code", {}, `rewake view ${context.id}`), " shows it."));
    return article;
  }
  const make = MAKERS[kind] ?? plain;
  make(article, content, { key, time, flags, context });
  return article;
}

function heading(article, label, time, ...more) {
  const title = h("header", {}, h("h3", {}, label), ...more, h("span", { class: "when" }, clock(time)));
  article.append(title);
}

/** A part that opens and closes; `body` is called when it is opened. */
function fold(article, { key, context, summary, body, label }) {
  const open = context.isOpen(key);
  const inner = h("div", { class: "fold-body", id: `body-${key}` });
  if (open) inner.append(...body());
  else inner.hidden = true;
  const button = h(
    "button",
    { class: "fold", type: "button", "aria-expanded": String(open), "aria-controls": `body-${key}`, "aria-label": label ?? null, onclick: () => context.toggle(key) },
    icon("chevron"),
    summary,
  );
  article.append(button, inner);
}

const MAKERS = {
  prompt(article, content, { key, time, context }) {
    heading(article, "Prompt", time);
    article.append(h("div", { class: "said", dir: "auto" }, cutText(content.text, "rewake show --json")));
    if (content.sent) {
      fold(article, { key, context, summary: h("span", { class: "muted" }, "What the model got for it"), body: () => [h("div", { class: "said", dir: "auto" }, cutText(content.sent))] });
    }
  },
  answer(article, content, { time }) {
    const stop = content.stop ? h("span", { class: "badge warn" }, words(content.stop)) : null;
    heading(article, "Answer", time, content.model ? h("span", { class: "muted model" }, content.model) : null, stop);
    article.append(h("div", { class: "prose", dir: "auto" }, nodes(content.nodes)));
  },
  thinking(article, content, { key, context }) {
    const lines = content.text[0].split("\n").length;
    fold(article, {
      key,
      context,
      summary: h("span", {}, "Thinking ", h("span", { class: "muted" }, many(lines, "line"))),
      body: () => [h("div", { class: "said thought", dir: "auto" }, cutText(content.text))],
    });
  },
  call: callRow,
  result(article, content, { time }) {
    heading(article, "Result", time);
    article.append(...results(content.result));
  },
  note(article, content, { time }) {
    heading(article, content.who === "rewake" ? "Note" : words(content.who), time);
    article.append(h("div", { class: "said", dir: "auto" }, cutText(content.text)));
  },
  summary(article, content, { key, context }) {
    const sizes = content.before ? ` ${short(content.before)} → ${short(content.after)} tokens` : "";
    fold(article, {
      key,
      context,
      summary: h("span", {}, "Compacted here", h("span", { class: "muted" }, `${sizes} · ${content.trigger || "asked for"} · the model goes on with this summary`)),
      body: () => [h("div", { class: "prose", dir: "auto" }, nodes(content.nodes))],
    });
  },
  attached(article, content, { time }) {
    heading(article, content.name ? "File" : "Picture", time);
    article.append(attachment(content));
  },
  run(article, content) {
    const parts = [content.model, content.mode, content.version ? `Rewake ${content.version}` : "", content.host].filter(Boolean);
    article.append(h("p", { class: "mark" }, h("strong", {}, content.number === 1 ? "Begun" : `Resumed (run ${content.number})`), ` ${moment(content.begun)} `, h("span", { class: "muted" }, parts.join(" · "))));
  },
  end(article, content) {
    article.append(h("p", { class: "mark" }, h("strong", {}, "Run ended"), ` ${words(content.reason)} `, content.detail ? h("span", { class: "muted" }, content.detail) : null));
  },
  rewind(article, content, { key, context }) {
    const what = { conversation: "the conversation", files: "files", both: "the conversation and files" }[content.scope] ?? content.scope;
    const title = h("p", { class: "mark" }, h("strong", {}, content.undo ? "Undid a rewind of " : "Went back: ", what));
    article.append(title);
    if (content.conflicts.length) article.append(h("p", { class: "muted" }, "Left alone, since somebody else had changed them: ", content.conflicts.flatMap((name) => [...fileName(name), " "])));
    if (content.diffs.length) {
      fold(article, { key, context, summary: h("span", {}, many(content.diffs.length, "file")), body: () => content.diffs.map(diffBlock) });
    }
  },
  damage(article, content) {
    article.append(h("p", { class: "mark" }, h("strong", {}, "Damaged here"), ` ${content.text}`));
  },
  opaque(article, content) {
    article.append(h("p", { class: "muted" }, `A part of ${bytes(content.bytes)} that this version can't read.`));
  },
  agent(article, content, { key, context }) {
    fold(article, {
      key,
      context,
      summary: h("span", {}, `Sub-agent ${words(content.status)} `, h("span", { class: "muted" }, many(content.diffs.length, "file"), " changed")),
      body: () => content.diffs.map(diffBlock),
    });
  },
};

function plain(article, content) {
  article.append(h("p", { class: "muted" }, JSON.stringify(content)));
}

// --- calls ----------------------------------------------------------------------------------

function callRow(article, content, { key, flags, context, time }) {
  const added = sum(content.diffs, "added");
  const removed = sum(content.diffs, "removed");
  const summary = [
    h("span", { class: `dot ${dotOf(content, flags)}`, "aria-hidden": "true" }),
    h("span", { class: "tool" }, content.name),
    h("bdi", { class: "about" }, content.about),
    content.diffs ? counts({ added, removed }) : null,
    ...badges(content, flags),
    h("span", { class: "when" }, content.ended !== undefined && content.started !== undefined ? duration(content.ended - content.started) : clock(time)),
  ];
  fold(article, { key, context, summary, body: () => callBody(content, key, context) });
}

function dotOf(content, flags) {
  if (flags & VERDICT) return "settled";
  if (flags & ERROR) return "failed";
  return content.state === "completed" ? "done" : "open";
}

function badges(content, flags) {
  const made = [];
  if (content.verdict) made.push(h("span", { class: `badge verdict ${content.verdict}` }, words(content.verdict)));
  else if (flags & OPEN) made.push(h("span", { class: "badge warn" }, STATES[content.state] ?? content.state));
  if (flags & ERROR) made.push(h("span", { class: "badge bad" }, content.exit ? `exit ${content.exit}` : "error"));
  if (content.verified !== undefined) made.push(h("span", { class: `badge ${content.verified ? "good" : "bad"}` }, content.verified ? "check passed" : "check failed"));
  if (content.agent) made.push(h("span", { class: "badge" }, "sub-agent"));
  if (content.background) made.push(h("span", { class: "badge" }, content.backgroundEnded === undefined ? "in the background" : "ended in the background"));
  return made;
}

function callBody(content, key, context) {
  const made = [];
  if (content.verdict) made.push(verdictBlock(content));
  if (content.agent) made.push(agentButton(content, key, context));
  if (content.todos) made.push(todoList(content.todos));
  for (const diff of content.diffs ?? []) made.push(diffBlock(diff));
  if (content.intended) {
    made.push(h("p", { class: "muted" }, "It was about to change:"), ...content.intended.map(diffBlock));
  }
  const hasDiffs = Boolean(content.diffs?.length);
  if (content.arguments?.length || content.argumentsText) made.push(argumentsBlock(content, !hasDiffs));
  if (content.result) made.push(h("h4", {}, "Result"), ...results(content.result, content.call));
  else made.push(h("p", { class: "muted" }, "No result was recorded."));
  made.push(h("p", { class: "ids muted" }, content.exit !== undefined ? `exit status ${content.exit} · ` : "", content.call ? `call ${content.call}` : ""));
  return made;
}

function argumentsBlock(content, open) {
  const rows = content.argumentsText
    ? [h("pre", { class: "code", tabindex: "0" }, cutText(content.argumentsText))]
    : content.arguments.map(([name, text, pairs]) => argument(name, text, pairs));
  return h("details", { class: "arguments", open }, h("summary", {}, "Arguments"), rows);
}

export function argument(name, text, pairs) {
  const isShort = text.length === 1 && text[0].length <= 160 && !text[0].includes("\n");
  const value = isShort
    ? h("code", { dir: "auto" }, pairs ? highlighted(pairs) : text[0])
    : h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": name }, pairs ? highlighted(pairs) : cutText(text));
  return h("div", { class: isShort ? "argument short" : "argument" }, h("span", { class: "name" }, name), value);
}

export function verdictBlock(content, heading = "h4") {
  return h(
    "section",
    { class: `verdict-block ${content.verdict}` },
    h(heading, {}, "Interrupted: ", VERDICTS[content.verdict] ?? words(content.verdict)),
    content.note ? h("p", {}, content.note) : null,
    (content.evidence ?? []).map(([name, text, pairs]) => argument(words(name), text, pairs)),
    h("p", { class: "muted" }, `Settled by ${content.by}.`),
  );
}

function agentButton(content, key, context) {
  if (!context.hasAgent(content.agent)) return h("p", { class: "muted" }, `Sub-agent ${content.agent} has no transcript here.`);
  const isOpen = context.isAgentOpen(content.agent);
  return h(
    "button",
    { class: "plain", type: "button", "aria-expanded": String(isOpen), onclick: () => context.openAgent(content.agent, key) },
    isOpen ? "Fold its conversation" : "Show its conversation",
  );
}

function todoList(todos) {
  const marks = { completed: "✓", in_progress: "▸", pending: "○", cancelled: "✕" };
  return h("ul", { class: "todos" }, todos.map(([status, text]) => h("li", { class: status }, h("span", { "aria-label": words(status) }, marks[status] ?? "·"), " ", text)));
}

function results(blocks, call) {
  const how = call ? "rewake show --json" : "";
  return (blocks ?? []).map((block) =>
    block.text ? h("pre", { class: "output", tabindex: "0", role: "group", "aria-label": "Result" }, block.text[0] === "" && block.text.length === 1 ? h("span", { class: "muted" }, "(nothing)") : cutText(block.text, how)) : attachment(block),
  );
}

function attachment(block) {
  const size = `${block.type}, ${bytes(block.size)}`;
  const name = block.name ? [...fileName(block.name), " "] : [];
  if (!block.src) return h("p", { class: "muted" }, ...name, `${size}. ${block.problem ?? ""}`);
  return h("figure", { class: "picture" }, h("img", { src: block.src, alt: block.name ? block.name.path : "A picture of the session", loading: "lazy", decoding: "async" }), h("figcaption", { class: "muted" }, ...name, size));
}

const sum = (items, name) => (items ?? []).reduce((total, item) => total + (item[name] ?? 0), 0);

/** All text of a content, to be searched. */
export function textOf(content) {
  if (content === null || content === undefined) return "";
  const parts = [content.sent && cutParts(content.sent), content.name, content.about, content.note, content.detail, content.model, content.argumentsText?.join("")];
  if (content.nodes) parts.push(...content.nodes.map(treeText));
  if (Array.isArray(content.text)) parts.push(cutParts(content.text));
  else if (content.text) parts.push(content.text);
  for (const [name, text] of [...(content.arguments ?? []), ...(content.evidence ?? [])]) parts.push(name, cutParts(text));
  for (const block of content.result ?? []) parts.push(block.text ? cutParts(block.text) : block.name?.path);
  for (const diff of [...(content.diffs ?? []), ...(content.intended ?? [])]) {
    parts.push(diff.path, ...(diff.lines ?? []).map(([, ...pairs]) => pairText(pairs)));
  }
  for (const [, text] of content.todos ?? []) parts.push(text);
  return parts.filter((part) => typeof part === "string").join("\n");
}

const cutParts = (parts) => (parts.length === 1 ? parts[0] : `${parts[0]}\n${parts[2]}`);
const pairText = (pairs) => pairs.filter((_, at) => at % 2 === 1).join("");

function treeText(tree) {
  if (typeof tree === "string") return tree;
  const [tag, ...rest] = tree;
  const children = rest.filter((child) => typeof child === "string" || Array.isArray(child));
  if (tag === "hl") return pairText(children);
  return children.map(treeText).join("") + (/^(?:p|li|h\d|tr|td|th)$/.test(tag) ? "\n" : "");
}
