// The page of one session.

import { branchTree, promptList } from "./branches.js";
import { Charts } from "./charts.js";
import { Story } from "./data.js";
import { afterAWhile, announce, h, icon, put } from "./dom.js";
import { AGENT, VERDICT, rowElement } from "./items.js";
import { helpDialog, listenToKeys } from "./keys.js";
import { List } from "./list.js";
import { agentsPanel, filesPanel, healthPanel, interruptedPanel, runsPanel } from "./panels.js";
import { rowsOf } from "./rows.js";
import { Search, mark } from "./search.js";
import { duration, many, moment, money, number, short, words } from "./text.js";

const LINE_PX = 22;
const FOLDED_PX = 38;
const PRINTED_MAX = 3000;
const POLL_MS = 1000;
const TABS = ["conversation", "files", "interrupted", "agents", "runs", "health"];
const DEPTH_MAX = 8;
const FOLDED = new Set(["call", "thinking", "summary", "agent"]);

export class SessionPage {
  constructor(source, { homeLink = null } = {}) {
    this.source = source;
    this.homeLink = homeLink;
    this.story = new Story(source, "m");
    this.fileChunks = new Story(source, "f");
    this.agents = new Map();
    this.openAgents = new Map();
    this.folds = new Map();
    this.allOpen = false;
    this.branch = null;
    this.hidden = new Set();
    this.entries = [];
    this.at = null;
    this.hits = [];
    this.hit = -1;
    this.search = new Search();
    this.tab = "conversation";
    this.follow = false;
    this.context = {
      isOpen: (key) => this.isOpen(key),
      toggle: (key) => this.toggle(key),
      hasAgent: (id) => this.head.agents.some((agent) => agent.id === id && agent.here),
      isAgentOpen: (id) => this.openAgents.has(id),
      openAgent: (id, key) => this.toggleAgent(id, key),
    };
  }

  async start(app, message = null) {
    this.wanted = message;
    this.head = await this.source.head();
    this.context.id = this.head.id.slice(0, 13);
    document.title = `${this.head.title || "Session"} · Rewake`;
    await this.story.refresh();
    // A live one is told by reading it, so its head is known only now.
    if (this.source.live) this.head = await this.source.head();
    this.build(app);
    this.refill();
    this.charts.draw();
    listenToKeys(this.keys());
    addEventListener("beforeprint", () => this.makeWhole());
    addEventListener("afterprint", () => this.makeVirtual());
    if (this.source.live) this.poll();
  }

  // --- parts --------------------------------------------------------------------------------

  build(app) {
    this.header = h("header", { class: "top" });
    this.side = h("aside", { class: "side", "aria-label": "Branches and prompts" });
    this.panels = Object.fromEntries(TABS.map((name) => [name, h("div", { class: `panel ${name}`, id: `panel-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}`, tabindex: "-1", hidden: name !== "conversation" })]));
    this.feed = h("div", { class: "feed", id: "conversation", role: "feed", "aria-label": "Conversation", tabindex: "-1" });
    this.empty = h("p", { class: "empty", hidden: true }, "Nothing was said yet.");
    this.notice = h("p", { class: "notice", hidden: true });
    this.panels.conversation.append(this.toolbar(), this.notice, this.feed, this.empty);
    this.charts = new Charts(this.story, (row) => this.goTo(row));
    this.tabs = this.tabList();
    const main = h("main", { id: "main" }, this.charts.section, this.tabs, Object.values(this.panels));
    app.replaceChildren(this.header, h("div", { class: "columns" }, this.side, main));
    this.help = helpDialog();
    document.body.append(this.help);
    this.list = new List(this.feed, {
      make: (i) => this.rowElement(i),
      keyOf: (i) => keyOf(this.entries[i]),
      estimate: (i) => this.estimate(this.entries[i]),
      onShown: () => this.shown(),
    });
    this.fillHead();
  }

  fillHead() {
    const { head } = this;
    const outcome = outcomeOf(head);
    const back = this.homeLink ? h("a", { class: "back", href: this.homeLink }, icon("back"), "Sessions") : null;
    const facts = [head.project, head.branch, `${moment(head.created)} – ${moment(head.updated)}`].filter(Boolean);
    this.header.replaceChildren(
      h(
        "div",
        { class: "title-line" },
        back,
        h("h1", { dir: "auto" }, head.title || "Untitled session"),
        h("span", { class: `badge outcome ${outcome.tone}`, title: outcome.more }, outcome.text),
        ...head.tags.map((tag) => h("span", { class: "badge" }, tag)),
        h(
          "span",
          { class: "tools" },
          toolButton("theme", "Light, dark or as the system (t)", () => this.theme()),
          toolButton("print", "Print", () => this.print()),
          toolButton("help", "Keys (?)", () => this.help.showModal()),
        ),
      ),
      h("p", { class: "facts-line muted" }, facts.map((fact, at) => [at ? " · " : "", h("bdi", {}, fact)]), head.forkedFrom ? " · a fork" : "", " · ", h("code", {}, head.id)),
      figures(head),
      ...this.warnings(),
    );
    this.fillTabs();
  }

  warnings() {
    const made = [];
    if (this.head.problem) made.push(h("p", { class: "notice bad" }, this.head.problem));
    if (this.head.damaged) made.push(h("p", { class: "notice bad" }, `${many(this.head.damaged, "line")} of the transcript can't be read. `, this.tabLink("health", "See what is known about it")));
    const unknown = this.head.interrupted.filter((action) => action.verdict === "unknown").length;
    if (unknown) made.push(h("p", { class: "notice" }, `Of ${many(unknown, "interrupted action")} nobody can tell whether it happened. `, this.tabLink("interrupted", "Look at the evidence")));
    if (this.head.redacted === null) made.push(h("p", { class: "notice" }, "Nothing was redacted: this page may hold keys and passwords."));
    return made;
  }

  tabLink(name, text) {
    return h("button", { class: "link", type: "button", onclick: () => this.showTab(name) }, text);
  }

  tabList() {
    return h("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: (event) => this.tabKey(event) }, TABS.map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, "aria-selected": String(name === this.tab), tabindex: name === this.tab ? "0" : "-1", onclick: () => this.showTab(name) })));
  }

  fillTabs() {
    const { head } = this;
    const counts = { conversation: null, files: head.added || head.removed ? `+${short(head.added)} −${short(head.removed)}` : null, interrupted: head.interrupted.length || null, agents: head.agents.length || null, runs: head.runCount || null, health: null };
    for (const name of TABS) {
      const tab = document.getElementById(`tab-${name}`);
      tab.replaceChildren();
      put(tab, [name[0].toUpperCase() + name.slice(1), counts[name] ? h("span", { class: "count" }, counts[name]) : null]);
    }
  }

  tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.indexOf(this.tab) + step + TABS.length) % TABS.length];
    this.showTab(next);
    document.getElementById(`tab-${next}`).focus();
    event.preventDefault();
  }

  async showTab(name) {
    this.tab = name;
    for (const other of TABS) {
      const tab = document.getElementById(`tab-${other}`);
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
      this.panels[other].hidden = other !== name;
    }
    if (name === "conversation") this.list.drawNow();
    else await this.fillPanel(name);
  }

  async fillPanel(name) {
    const panel = this.panels[name];
    const page = { goTo: (row) => this.goTo(row), contentOf: (row) => this.story.content(row), fileContent: (item) => this.fileContent(item), openAgent: (id, row) => this.showAgent(id, row) };
    let made = [];
    if (name === "files") {
      const told = await this.source.files();
      this.filesTold = told;
      made = filesPanel(told, page);
    } else if (name === "health") {
      if (!panel.firstChild) panel.append(h("p", { class: "empty" }, "Looking for damage …"));
      made = healthPanel(await this.source.check());
    } else if (name === "interrupted") made = interruptedPanel(this.head, page);
    else if (name === "agents") made = agentsPanel(this.head, page);
    else made = runsPanel(this.head);
    panel.replaceChildren();
    put(panel, made);
  }

  async fileContent(item) {
    const { chunk, place } = this.filesTold.rows;
    const at = item - this.filesTold.rows.from;
    if (chunk[at] < 0) return this.filesTold.open?.find(([row]) => row === item)?.[1] ?? null;
    if (chunk[at] < this.filesTold.rows.leftOut) return null;
    return (await this.fileChunks.chunks.load(chunk[at]))[place[at]] ?? null;
  }

  toolbar() {
    const begin = afterAWhile(() => this.startSearch(), 150);
    this.box = h("input", { type: "search", id: "search", placeholder: "Search this conversation  /", "aria-label": "Search this conversation", autocomplete: "off", spellcheck: "false", oninput: begin, onkeydown: (event) => this.searchKey(event) });
    this.hitCount = h("span", { class: "hit-count muted", role: "status" });
    this.kinds = h("details", { class: "kinds" }, h("summary", {}, "Show"), h("div", { class: "menu" }, [["thinking", "thinking"], ["call", "tool calls"], ["note", "notes"], ["run", "runs and ends"]].map(([kind, label]) => h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => this.showKind(kind, event.target.checked) }), label))));
    this.unfoldAll = h("button", { class: "plain", type: "button", "aria-pressed": "false", onclick: () => this.toggleAll() }, "Unfold all");
    this.followButton = h("button", { class: "plain follow", type: "button", "aria-pressed": "false", hidden: !this.source.live, onclick: () => this.setFollow(!this.follow) }, "Follow");
    return h("div", { class: "toolbar", role: "search" }, this.box, this.hitCount, toolButton("up", "Previous hit (N)", () => this.goToHit(-1)), toolButton("down", "Next hit (n)", () => this.goToHit(1)), h("span", { class: "gap" }), this.followButton, this.kinds, this.unfoldAll);
  }

  // --- rows ---------------------------------------------------------------------------------

  kindOf(entry) {
    return this.head.kinds[entry.story.at("kind", entry.row)];
  }

  refill() {
    const rows = rowsOf(this.story, this.head.segments, this.branch ?? this.head.current);
    this.entries = [];
    this.places = new Map();
    this.agentsAt = new Map();
    for (const [id, agent] of this.openAgents) this.agentsAt.set(agent.at, id);
    for (const row of rows) this.add({ story: this.story, row, depth: 0 });
    this.rows = rows;
    this.empty.hidden = this.entries.length > 0;
    const leftOut = this.story.base;
    this.notice.hidden = !leftOut && this.story.isWhole;
    if (!this.story.isWhole) this.notice.textContent = `Reading the transcript … ${Math.round((100 * this.head.read) / (this.head.bytes || 1))} %`;
    else if (leftOut) this.notice.textContent = `The oldest ${many(leftOut, "row")} were left out, so that the page stays small. rewake show has them.`;
    this.list.update(this.entries.length);
    this.fillSide();
  }

  add(entry) {
    const kind = this.kindOf(entry);
    if (this.hidden.has(kind) || (this.hidden.has("run") && (kind === "end" || kind === "rewind"))) return;
    if (entry.depth === 0) this.places.set(entry.row, this.entries.length);
    this.entries.push(entry);
    const id = this.agentsAt.get(keyOf(entry));
    if (id === undefined || entry.depth > DEPTH_MAX) return;
    const { story } = this.openAgents.get(id);
    for (let row = story.base; row < story.count; row++) this.add({ story, row, depth: entry.depth + 1 });
  }

  fillSide() {
    this.side.replaceChildren();
    put(this.side, [branchTree(this.head, this.branch ?? this.head.current, (number) => this.choose(number)), promptList(this.head, this.rows, (row) => this.goTo(row))]);
    this.side.hidden = !this.side.firstChild;
  }

  estimate(entry) {
    const kind = this.kindOf(entry);
    if (FOLDED.has(kind)) return FOLDED_PX;
    return 46 + LINE_PX * Math.min(4000, entry.story.at("lines", entry.row));
  }

  rowElement(i) {
    const entry = this.entries[i];
    const { story, row, depth } = entry;
    const key = keyOf(entry);
    const content = story.peek(row);
    const element = rowElement(this.kindOf(entry), content, { key, time: story.at("time", row), flags: story.at("flags", row), depth, context: this.context });
    if (content === undefined) {
      element.style.minHeight = `${this.estimate(entry)}px`;
      story.content(row).then(() => {
        this.list.redraw(key);
        this.marked();
      });
    }
    if (key === this.at) element.classList.add("at");
    if (story.at("flags", row) & AGENT || story.open.has(row)) element.dataset.open = "1";
    element.addEventListener("focusin", () => this.setAt(key, false));
    return element;
  }

  shown() {
    this.marked();
  }

  marked() {
    if (this.query) mark(this.feed, this.query);
  }

  isOpen(key) {
    const known = this.folds.get(key);
    if (known !== undefined) return known;
    if (this.allOpen) return true;
    const [name, row] = splitKey(key);
    const story = name === "m" ? this.story : this.agents.get(name);
    return Boolean(story && story.at("flags", row) & VERDICT);
  }

  toggle(key) {
    this.folds.set(key, !this.isOpen(key));
    this.list.redraw(key);
    this.marked();
  }

  toggleAll() {
    this.allOpen = !this.allOpen;
    this.folds.clear();
    this.list.heights.clear();
    this.unfoldAll.setAttribute("aria-pressed", String(this.allOpen));
    this.unfoldAll.textContent = this.allOpen ? "Fold all" : "Unfold all";
    this.list.clear();
    this.list.update(this.entries.length);
  }

  showKind(kind, isShown) {
    if (isShown) this.hidden.delete(kind);
    else this.hidden.add(kind);
    this.refill();
  }

  choose(branch) {
    this.branch = branch === this.head.current ? null : branch;
    this.list.clear();
    this.refill();
    announce(`Branch with ${many(this.entries.length, "row")}`);
    this.side.querySelector('[aria-current="true"]')?.focus();
    if (this.query) this.startSearch();
  }

  async goTo(row, inBranch = true) {
    if (this.tab !== "conversation") await this.showTab("conversation");
    let i = this.places.get(row);
    if (i === undefined && inBranch) {
      // It is on another branch.
      this.choose(leafWith(this.head.segments, this.story.at("seg", row)));
      i = this.places.get(row);
    }
    if (i !== undefined) this.focusRow(i);
  }

  focusRow(i) {
    const key = keyOf(this.entries[i]);
    this.setAt(key, true);
    const element = this.list.reveal(i);
    element?.focus({ preventScroll: true });
  }

  setAt(key, isMoved) {
    if (this.at === key) return;
    this.list.shown.get(this.at)?.classList.remove("at");
    this.at = key;
    this.list.shown.get(key)?.classList.add("at");
    if (isMoved && this.follow) this.setFollow(false);
  }

  indexOfAt() {
    if (this.at === null) return -1;
    const [name, row] = splitKey(this.at);
    if (name === "m") return this.places.get(row) ?? -1;
    return this.entries.findIndex((entry) => keyOf(entry) === this.at);
  }

  move(step) {
    if (this.entries.length === 0) return;
    const known = this.indexOfAt();
    const from = known >= 0 ? known : this.list.isWhole ? -1 : this.list.rowAt(scrollY - this.list.top + 60) - 1;
    this.focusRow(Math.max(0, Math.min(this.entries.length - 1, from + step)));
  }

  // --- sub-agents ---------------------------------------------------------------------------

  async toggleAgent(id, key) {
    if (this.openAgents.has(id)) this.openAgents.delete(id);
    else await this.readAgent(id, key);
    this.redrawAll();
  }

  redrawAll() {
    this.list.clear();
    this.refill();
  }

  /** Its story stands below the row `key`: the call that it worked for. */
  async readAgent(id, key) {
    const name = `a-${id}`;
    const story = this.agents.get(name) ?? new Story(this.source, name);
    try {
      await story.refresh();
    } catch (error) {
      announce(error.message);
      return;
    }
    this.agents.set(name, story);
    const at = key ?? this.openAgents.get(id)?.at ?? this.callOf(id) ?? `m:${this.rows.at(-1) ?? 0}`;
    this.openAgents.set(id, { at, story });
  }

  /** The row of the call that an agent worked for, as far as it is known here. */
  callOf(id) {
    const told = this.head.agents.find((agent) => agent.id === id);
    return told?.row === undefined ? undefined : `m:${told.row}`;
  }

  async showAgent(id, row) {
    const parent = this.head.agents.find((agent) => agent.id === id)?.parent;
    if (parent && !this.openAgents.has(parent)) await this.readAgent(parent);
    if (!this.openAgents.has(id)) await this.readAgent(id, await this.callIn(parent, id));
    await this.showTab("conversation");
    this.redrawAll();
    const at = this.entries.findIndex((entry) => keyOf(entry) === this.openAgents.get(id)?.at);
    if (row !== undefined) this.goTo(row);
    else if (at >= 0) this.focusRow(at);
  }

  /** The row in its parent's story of the call that an agent worked for. */
  async callIn(parent, id) {
    const story = this.agents.get(`a-${parent}`);
    for (let row = story?.base ?? 0; row < (story?.count ?? 0); row++) {
      if (story.at("flags", row) & AGENT && (await story.content(row))?.agent === id) return `${story.key}:${row}`;
    }
    return undefined;
  }

  // --- search -------------------------------------------------------------------------------

  startSearch() {
    this.query = this.box.value.trim();
    this.hits = [];
    this.hit = -1;
    mark(this.feed, this.query);
    if (!this.query) {
      this.search.stop();
      this.hitCount.textContent = "";
      return;
    }
    const entries = this.entries;
    this.hitCount.textContent = "…";
    this.search.start(this.query, entries, {
      onFound: (i) => {
        this.hits.push(i);
        if (this.hits.length === 1) this.showHit(0, false);
      },
      onProgress: (done) => this.countHits(`, ${Math.round((100 * done) / entries.length)} % searched`),
      onDone: (found) => {
        this.countHits("");
        announce(found ? many(found, "row") + " found" : "Nothing found");
      },
    });
  }

  countHits(more) {
    const count = this.hits.length;
    this.hitCount.textContent = count ? `${this.hit + 1} of ${number(count)}${more}` : more ? `0${more}` : "nothing found";
  }

  goToHit(step) {
    if (this.hits.length === 0) return;
    this.showHit((this.hit + step + this.hits.length) % this.hits.length, true);
    this.countHits("");
  }

  showHit(at, isFocused) {
    this.hit = at;
    const i = this.hits[at];
    const key = keyOf(this.entries[i]);
    if (FOLDED.has(this.kindOf(this.entries[i])) && !this.isOpen(key)) {
      this.folds.set(key, true);
      this.list.redraw(key);
    }
    this.setAt(key, true);
    const element = this.list.reveal(i);
    if (isFocused) element?.focus({ preventScroll: true });
    this.marked();
  }

  searchKey(event) {
    if (event.key === "Enter") {
      if (this.box.value.trim() === (this.query ?? "")) this.goToHit(event.shiftKey ? -1 : 1);
      else this.startSearch();
      event.preventDefault();
    } else if (event.key === "Escape") {
      this.box.value = "";
      this.startSearch();
      this.box.blur();
      event.stopPropagation();
    }
  }

  // --- keys, theme, print -------------------------------------------------------------------

  keys() {
    const inList = (work) => () => (this.tab === "conversation" ? work() : false);
    const keys = {
      j: inList(() => this.move(1)),
      k: inList(() => this.move(-1)),
      ArrowDown: inList(() => (this.at === null ? false : this.move(1))),
      ArrowUp: inList(() => (this.at === null ? false : this.move(-1))),
      o: inList(() => this.toggleAt()),
      Enter: inList(() => this.toggleAt()),
      n: inList(() => this.goToHit(1)),
      N: inList(() => this.goToHit(-1)),
      g: inList(() => this.focusRow(0)),
      G: inList(() => this.focusRow(this.entries.length - 1)),
      e: inList(() => this.toggleAll()),
      t: () => this.theme(),
      "?": () => this.help.showModal(),
      "/": () => {
        if (this.tab !== "conversation") this.showTab("conversation");
        this.box.focus();
        this.box.select();
      },
      Escape: () => (document.activeElement === this.box ? this.box.blur() : false),
    };
    TABS.forEach((name, at) => {
      keys[String(at + 1)] = () => this.showTab(name);
    });
    return keys;
  }

  toggleAt() {
    const i = this.indexOfAt();
    const element = i >= 0 ? this.list.shown.get(this.at) : null;
    const button = element?.querySelector("button.fold");
    if (!button) return false;
    this.toggle(this.at);
    return true;
  }

  theme() {
    setTheme();
    this.charts.draw();
  }

  makeWhole() {
    this.themeBefore = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light"; // paper is, and so must the charts be
    this.charts.draw();
    if (this.entries.length <= PRINTED_MAX) {
      this.list.wholeMax = PRINTED_MAX;
      this.list.drawNow();
    }
  }

  makeVirtual() {
    if (this.themeBefore === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.themeBefore;
    this.charts.draw();
    this.list.wholeMax = 300;
    this.list.clear();
    this.list.drawNow();
  }

  /** Everything must be there before it is printed; of very long sessions only what is near is. */
  async print() {
    if (this.entries.length <= PRINTED_MAX) {
      for (const { story, row } of this.entries) await story.content(row);
    } else announce(`Only the rows near this place are printed, of ${this.entries.length}.`);
    print();
  }

  // --- live ---------------------------------------------------------------------------------

  setFollow(isOn) {
    this.follow = isOn;
    this.followButton.setAttribute("aria-pressed", String(isOn));
    if (isOn) this.toEnd();
  }

  toEnd() {
    scrollTo(0, document.documentElement.scrollHeight);
  }

  async poll() {
    for (;;) {
      await this.goToWanted();
      await new Promise((go) => setTimeout(go, this.story.isWhole ? POLL_MS : 0));
      if (document.hidden) continue;
      try {
        await this.catchUp();
        this.followButton.classList.remove("lost");
      } catch (error) {
        this.followButton.classList.add("lost");
        this.hitCount.textContent = error instanceof TypeError ? "The server is gone." : error.message;
      }
    }
  }

  /** The message that the address names, as soon as it was read. */
  async goToWanted() {
    if (this.wanted === null) return;
    const { row } = await this.source.json(`/row/${encodeURIComponent(this.wanted)}`);
    if (row === null && !this.story.isWhole) return;
    this.wanted = null;
    if (row !== null) this.goTo(row);
  }

  async catchUp() {
    const hasNews = await this.story.refresh();
    if (!hasNews) return;
    const branchBefore = this.head.current;
    this.head = await this.source.head();
    if (this.story.wasReset || (this.branch === null && branchBefore !== this.head.current)) this.list.clear();
    for (const id of [...this.openAgents.keys()]) await this.readAgent(id);
    this.forgetOpen();
    this.refill();
    this.fillHead();
    this.charts.draw();
    if (this.tab !== "conversation" && this.tab !== "health") await this.fillPanel(this.tab);
    if (this.follow) this.toEnd();
  }

  /** Rows that weren't at their end when they were made are made anew. */
  forgetOpen() {
    for (const [key, element] of [...this.list.shown]) if (element.dataset.open) this.list.redraw(key);
  }
}

const keyOf = ({ story, row }) => `${story.key}:${row}`;

function splitKey(key) {
  const at = key.lastIndexOf(":");
  return [key.slice(0, at), Number(key.slice(at + 1))];
}

/** The newest branch that a stretch is part of. */
function leafWith(segments, segment) {
  const within = (leaf) => {
    for (let at = leaf; at >= 0; at = segments[at][0]) if (at === segment) return true;
    return false;
  };
  for (let leaf = segments.length - 1; leaf >= 0; leaf--) if (within(leaf)) return leaf;
  return segment;
}

export function toolButton(name, label, work) {
  return h("button", { class: "tool-button", type: "button", "aria-label": label, title: label, onclick: work }, icon(name));
}

const OUTCOMES = { done: ["Done", "good"], running: ["Running", "live"], interrupted: ["Interrupted", "warn"], failed: ["Failed", "bad"], damaged: ["Damaged", "bad"], empty: ["Empty", ""] };

function outcomeOf(head) {
  const [text, tone] = OUTCOMES[head.state] ?? [words(head.state), ""];
  const more = head.reason && head.reason !== "done" ? words(head.reason) : "";
  return { text: more && more !== text.toLowerCase() ? `${text}: ${more}` : text, tone, more };
}

function figures(head) {
  const { usage } = head;
  const cached = usage.input ? Math.round((100 * usage.cacheRead) / usage.input) : 0;
  const wall = Date.parse(head.updated) - Date.parse(head.created);
  const models = head.models.map((model) => model.name);
  const list = [
    ["Cost", money(usage.cost), ""],
    ["Tokens in", short(usage.input), usage.input ? `${cached} % from cache` : ""],
    ["Tokens out", short(usage.output), usage.cacheWrite ? `${short(usage.cacheWrite)} to cache` : ""],
    ["Time", duration(wall || 0), `${duration(head.workingMs)} at work`],
    ["Prompts", number(head.prompts), many(head.runCount, "run")],
    ["Tool calls", number(head.calls), head.failed ? `${number(head.failed)} failed` : "none failed"],
    ["Lines", `+${short(head.added)} −${short(head.removed)}`, ""],
    [models.length === 1 ? "Model" : "Models", models[0] ?? "–", models.length > 1 ? `and ${many(models.length - 1, "other")}` : ""],
  ];
  return h("dl", { class: "figures" }, list.map(([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", {}, h("span", { class: "value", title: value }, value), more ? h("span", { class: "muted" }, more) : null))));
}

/** From as the system has it to the other one, then back. */
export function setTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const now = root.dataset.theme ?? system;
  root.dataset.theme = now === "dark" ? "light" : "dark";
}
