// Where the page's data come from: elements of the file, or the server of the live view. Both give the
// same shapes; contents come in chunks, which are unpacked when they are looked at.

const CHUNKS_KEPT = 48;
const NOWHERE = -1;

async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at++) bytes[at] = raw.charCodeAt(at);
  return bytes;
}

/** The data in this file. Contents stand at its end and may still be arriving. */
export class FileSource {
  live = false;

  async head() {
    return JSON.parse(document.getElementById("d-head").textContent);
  }

  story(key) {
    return this.packed(`story-${key}`);
  }

  files() {
    return this.packed("files");
  }

  check() {
    return this.packed("check");
  }

  chunk(key, number) {
    return this.packed(`c-${key}-${number}`);
  }

  async packed(name) {
    let element = document.getElementById(`d-${name}`);
    if (element === null && document.readyState === "loading") {
      await new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));
      element = document.getElementById(`d-${name}`);
    }
    return element === null ? null : unpack(fromBase64(element.textContent));
  }
}

/** The data of the live view's server. */
export class LiveSource {
  live = true;

  constructor(token, sessionId) {
    this.token = token;
    this.base = sessionId === null ? "api" : `api/session/${encodeURIComponent(sessionId)}`;
  }

  async ask(path) {
    const answer = await fetch(`${this.base}${path}`, {
      headers: { "X-Rewake-Token": this.token },
      cache: "no-store",
    });
    if (!answer.ok) throw new Error((await answer.text()) || `The server said ${answer.status}.`);
    return answer;
  }

  async json(path) {
    return (await this.ask(path)).json();
  }

  head() {
    return this.json("/head");
  }

  story(key, rows = 0, steps = 0, stamp = "") {
    return this.json(`/story/${encodeURIComponent(key)}?rows=${rows}&steps=${steps}&stamp=${stamp}`);
  }

  files() {
    return this.json("/files");
  }

  check() {
    return this.json("/check");
  }

  async chunk(key, number) {
    const answer = await this.ask(`/chunk/${encodeURIComponent(key)}/${number}`).catch(() => null);
    if (answer === null) return null;
    return unpack(await answer.arrayBuffer());
  }
}

/** Contents of one store, by chunk; the chunks looked at last are kept. */
class Chunks {
  constructor(source, key) {
    this.source = source;
    this.key = key;
    this.kept = new Map();
    this.coming = new Map();
  }

  peek(number) {
    const found = this.kept.get(number);
    if (found !== undefined) {
      this.kept.delete(number);
      this.kept.set(number, found);
    }
    return found;
  }

  async load(number) {
    const known = this.peek(number);
    if (known !== undefined) return known;
    if (!this.coming.has(number)) {
      const coming = this.source.chunk(this.key, number).then((contents) => {
        this.kept.set(number, contents ?? []);
        this.coming.delete(number);
        if (this.kept.size > CHUNKS_KEPT) this.kept.delete(this.kept.keys().next().value);
        return contents ?? [];
      });
      this.coming.set(number, coming);
    }
    return this.coming.get(number);
  }

  forget() {
    this.kept.clear();
    this.coming.clear();
  }
}

const COLUMNS = ["kind", "seg", "time", "step", "chunk", "place", "lines", "flags"];
const STEPS = ["row", "begun", "model", "tools", "waited", "input", "output", "cached"];

/** One story: rows as columns, contents on demand. */
export class Story {
  constructor(source, key) {
    this.source = source;
    this.key = key;
    this.chunks = new Chunks(source, key);
    this.open = new Map();
    this.reset();
  }

  reset() {
    for (const name of COLUMNS) this[name] = [];
    this.base = this.count = this.settled = 0;
    this.stamp = "";
    this.steps = Object.fromEntries(STEPS.map((name) => [name, []]));
    this.steps.compactions = [];
    this.chunks.forget();
    this.open.clear();
  }

  /** Read it, or what is new in it; whether there was anything. */
  async refresh() {
    const told = await this.source.story(this.key, this.settled, this.steps.row.length, this.stamp);
    if (told === null) throw new Error("This story is not in the file.");
    if (told.unchanged) return false;
    this.wasReset = Boolean(told.reset && this.stamp !== "");
    if (this.wasReset) this.reset();
    this.isWhole = told.isWhole ?? true;
    this.take(told);
    return true;
  }

  take({ rows, steps, open, stamp }) {
    if (this.count === 0) this.base = rows.from;
    const keep = rows.from - this.base;
    for (const name of COLUMNS) {
      this[name].length = keep;
      for (const value of rows[name]) this[name].push(value);
    }
    this.count = rows.count;
    this.settled = rows.settled;
    this.leftOut = rows.leftOut;
    this.stamp = stamp ?? "file";
    for (const name of STEPS) {
      this.steps[name].length = steps.from;
      for (const value of steps[name]) this.steps[name].push(value);
    }
    this.steps.compactions = steps.compactions;
    this.open.clear();
    for (const [row, content] of open ?? []) this.open.set(row, content);
  }

  at(name, row) {
    return this[name][row - this.base];
  }

  /** The content if it is at hand, null where it was left out, undefined where it must be loaded. */
  peek(row) {
    const open = this.open.get(row);
    if (open !== undefined) return open;
    const chunk = this.at("chunk", row);
    if (chunk === NOWHERE || chunk < this.leftOut) return null;
    return this.chunks.peek(chunk)?.[this.at("place", row)];
  }

  async content(row) {
    const known = this.peek(row);
    if (known !== undefined) return known;
    const contents = await this.chunks.load(this.at("chunk", row));
    return contents[this.at("place", row)] ?? null;
  }
}
