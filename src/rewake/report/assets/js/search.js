// Searching what stands in the list. Contents are unpacked chunk by chunk; the page stays usable.

import { textOf } from "./items.js";

const PAUSE_EVERY_MS = 12;

/** Looks through `entries` in order; `onFound(i)` for each row with the words, `onDone(count)` at last. */
export class Search {
  constructor() {
    this.run = 0;
  }

  stop() {
    this.run++;
  }

  async start(query, entries, { onFound, onProgress, onDone }) {
    const mine = ++this.run;
    const wanted = query.toLowerCase();
    let since = performance.now();
    let found = 0;
    for (let i = 0; i < entries.length; i++) {
      const { story, row } = entries[i];
      let content = story.peek(row);
      if (content === undefined) {
        content = await story.content(row);
        if (mine !== this.run) return;
      }
      if (textOf(content).toLowerCase().includes(wanted)) {
        found++;
        onFound(i);
      }
      if (performance.now() - since > PAUSE_EVERY_MS) {
        onProgress(i + 1);
        await new Promise((go) => setTimeout(go));
        if (mine !== this.run) return;
        since = performance.now();
      }
    }
    onDone(found);
  }
}

/** Marks the words in what is shown, without touching it (where the browser can do that). */
export function mark(container, query) {
  if (!globalThis.CSS?.highlights || typeof Highlight === "undefined") return;
  CSS.highlights.delete("found");
  if (!query) return;
  const wanted = query.toLowerCase();
  const ranges = [];
  const walker = document.createTreeWalker(container, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null && ranges.length < 2000; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  if (ranges.length) CSS.highlights.set("found", new Highlight(...ranges));
}
