// The live view's list of sessions, and the search in all of them.

import { afterAWhile, h, put } from "./dom.js";
import { setTheme, toolButton } from "./session.js";
import { bytes, many, moment, money, number, words } from "./text.js";

const REFRESH_MS = 5000;
const TONES = { done: "good", running: "live", interrupted: "warn", failed: "bad", damaged: "bad" };

export class HomePage {
  constructor(source, linkTo) {
    this.source = source;
    this.linkTo = linkTo;
    this.everywhere = false;
  }

  async start(app) {
    document.title = "Sessions · Rewake";
    const search = afterAWhile(() => this.fill(), 250);
    this.box = h("input", { type: "search", id: "search", placeholder: "Search all that was said and done  /", "aria-label": "Search sessions", autocomplete: "off", oninput: search });
    this.status = h("span", { class: "muted", role: "status" });
    this.body = h("div", { class: "sessions", id: "conversation", tabindex: "-1" });
    const everywhere = h("label", {}, h("input", { type: "checkbox", onchange: (event) => this.widen(event.target.checked) }), "all projects");
    app.replaceChildren(
      h("header", { class: "top" }, h("div", { class: "title-line" }, h("h1", {}, "Sessions"), h("span", { class: "tools" }, toolButton("theme", "Light, dark or as the system", setTheme)))),
      h("main", { id: "main", class: "home" }, h("div", { class: "toolbar", role: "search" }, this.box, everywhere, h("span", { class: "gap" }), this.status), this.body),
    );
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.matches("input")) {
        this.box.focus();
        event.preventDefault();
      }
    });
    await this.fill();
    setInterval(() => {
      if (!document.hidden && !this.box.value.trim() && this.body.isConnected) this.fill();
    }, REFRESH_MS);
  }

  widen(isOn) {
    this.everywhere = isOn;
    this.fill();
  }

  async fill() {
    const query = this.box.value.trim();
    const scope = `all=${Number(this.everywhere)}`;
    try {
      if (query) this.hits(await this.source.json(`/search?${scope}&q=${encodeURIComponent(query)}`));
      else this.rows(await this.source.json(`/sessions?${scope}`));
    } catch (error) {
      this.status.textContent = error instanceof TypeError ? "The server is gone." : error.message;
    }
  }

  rows({ sessions, total }) {
    this.status.textContent = total > sessions.length ? `the newest ${sessions.length} of ${number(total)}` : `${number(total)}`;
    this.body.replaceChildren();
    if (sessions.length === 0) {
      this.body.append(h("p", { class: "empty" }, "There is no session here yet. Start one with rewake."));
      return;
    }
    put(this.body, [h("ul", { class: "session-list" }, sessions.map((session) => this.row(session)))]);
  }

  row(session) {
    const facts = [session.project, session.branch, moment(session.updated_at), session.messages === null ? "" : many(session.messages, "message"), session.cost_usd ? money(session.cost_usd) : "", bytes(session.size_bytes)].filter(Boolean);
    return h(
      "li",
      {},
      h("a", { href: this.linkTo(session.session_id) }, h("span", { class: "name", dir: "auto" }, session.title || "Untitled session"), h("span", { class: `badge ${TONES[session.state] ?? ""}` }, words(session.state))),
      h("p", { class: "muted" }, facts.map((fact, at) => [at ? " · " : "", h("bdi", {}, fact)])),
      session.problem ? h("p", { class: "notice bad" }, session.problem) : null,
    );
  }

  hits({ hits, problems }) {
    this.status.textContent = hits.length ? `${number(hits.length)} places` : "nothing found";
    this.body.replaceChildren();
    put(this.body, [
      problems.map((problem) => h("p", { class: "notice" }, problem)),
      h("ul", { class: "session-list" }, hits.map((hit) => h("li", {}, h("a", { href: this.linkTo(hit.session_id, hit.message_id) }, h("span", { class: "name", dir: "auto" }, hit.title || "Untitled session"), h("span", { class: "badge" }, hit.tool || words(hit.kind))), h("p", { class: "snippet", dir: "auto" }, marked(hit.snippet, hit.marks)), h("p", { class: "muted" }, moment(hit.timestamp))))),
    ]);
  }
}

/** The marks count code points, a string counts halves of them. */
function marked(text, marks) {
  const chars = [...text];
  const made = [];
  let end = 0;
  for (const [from, to] of marks) {
    made.push(chars.slice(end, from).join(""), h("mark", {}, chars.slice(from, to).join("")));
    end = to;
  }
  made.push(chars.slice(end).join(""));
  return made;
}
