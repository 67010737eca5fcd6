// Trees of text (report/nodes.py) as elements, and figures as people read them.

import { h, put } from "./dom.js";

const TAGS = new Set(
  ("p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s table thead tbody tr th td code span")
    .split(" "),
);
const CLASSES = new Set(["plain", "center", "right", "no-link"]);
const WEB = /^(?:https?:\/\/|mailto:)/i;

/** The elements of trees. A tag that isn't known becomes a plain span: its text is never lost. */
export function nodes(trees) {
  return (trees ?? []).map((tree) => (typeof tree === "string" ? tree : element(tree)));
}

function element(tree) {
  const [tag, ...rest] = tree;
  const has = rest.length > 0 && typeof rest[0] === "object" && !Array.isArray(rest[0]);
  const attributes = has ? rest.shift() : {};
  if (tag === "hl") return codeBlock(rest, attributes.lang);
  if (tag === "a") return link(attributes, rest);
  // A heading in an answer must not stand above the page's own.
  const level = /^h([1-6])$/.exec(tag);
  const name = level ? `h${Math.min(6, Number(level[1]) + 2)}` : TAGS.has(tag) ? tag : "span";
  const made = h(name, {});
  if (CLASSES.has(attributes.class)) made.className = attributes.class;
  if (name === "ol" && /^\d{1,9}$/.test(attributes.start ?? "")) made.start = Number(attributes.start);
  if (attributes.class === "no-link") made.title = attributes.title ?? "";
  put(made, nodes(rest));
  return name === "table" ? h("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" }, made) : made;
}

function link(attributes, children) {
  if (!WEB.test(attributes.href ?? "")) return h("span", { class: "no-link" }, nodes(children));
  return h(
    "a",
    { href: attributes.href, title: attributes.href, target: "_blank", rel: "noopener noreferrer nofollow" },
    nodes(children),
  );
}

/** Pairs of class and text, flat. */
export function highlighted(pairs) {
  const made = [];
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    made.push(/^[cskntf]$/.test(pairs[at]) ? h("span", { class: `c-${pairs[at]}` }, pairs[at + 1]) : pairs[at + 1]);
  }
  return made;
}

export function codeBlock(pairs, label) {
  const name = label ? `Code, ${label}` : "Code";
  return h("pre", { class: "code", tabindex: "0", role: "group", "aria-label": name }, h("code", {}, highlighted(pairs)));
}

/** A text that may be cut: `[all]` or `[beginning, characters left out, end]`. */
export function cutText(parts, how) {
  if (parts.length === 1) return [parts[0]];
  return [parts[0], h("span", { class: "cut" }, `… ${number(parts[1])} characters left out${how ? ` · ${how}` : ""} …`), parts[2]];
}

// --- figures --------------------------------------------------------------------------------

const PLAIN = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const number = (value) => PLAIN.format(value);
export const short = (value) => (value < 10_000 ? PLAIN.format(value) : SHORT.format(value));

export function money(value) {
  if (value === null || value === undefined) return "unknown";
  return value > 0 && value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.round(hours / 24)} days`;
}

export function bytes(count) {
  const units = ["bytes", "KB", "MB", "GB"];
  let unit = 0;
  let value = count;
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

export function moment(timestamp) {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? "–" : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** Since the session began: 0:07, 12:40, 3:05:10. */
export function clock(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  const rest = `${hours ? two(Math.floor((s % 3600) / 60)) : Math.floor(s / 60)}:${two(s % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export const words = (name) => String(name ?? "").replaceAll("_", " ");
export const many = (count, one, more) => `${number(count)} ${count === 1 ? one : more ?? `${one}s`}`;

/** A path, with what may mislead in it. */
export function fileName(named) {
  const made = [h("bdi", { class: "path" }, named.path)];
  if (named.warnings) {
    made.push(h("span", { class: "badge warn", title: named.warnings.join("; ") }, "⚠ misleading name: ", named.warnings.join("; ")));
  }
  return made;
}
