// A long list of which only what is near the window exists. Short lists exist as a whole, so that the
// browser's own search and printing work in them.

import { eachFrame } from "./dom.js";

const WHOLE_MAX = 300;
const MARGIN_PX = 1200;

export class List {
  /** `make(i)` gives an element, `keyOf(i)` its name, `estimate(i)` its height in pixels as far as known. */
  constructor(container, { make, keyOf, estimate, onShown }) {
    Object.assign(this, { container, make, keyOf, estimate, onShown });
    this.count = 0;
    this.shown = new Map();
    this.heights = new Map();
    this.offsets = new Float64Array(1);
    this.valid = 0;
    this.wholeMax = WHOLE_MAX;
    this.draw = eachFrame(() => this.drawNow());
    this.observer = new ResizeObserver((entries) => this.measure(entries));
    addEventListener("scroll", this.draw, { passive: true });
    addEventListener("resize", this.draw);
  }

  get isWhole() {
    return this.count <= this.wholeMax;
  }

  /** The list has `count` rows now; those whose key is known keep their elements. */
  update(count) {
    this.count = count;
    if (this.offsets.length < count + 1) {
      const larger = new Float64Array(Math.ceil((count + 1) * 1.5));
      larger.set(this.offsets);
      this.offsets = larger;
    }
    this.valid = 0;
    this.drawNow();
  }

  /** Where row `i` begins, from the top of the list. */
  offset(i) {
    if (i > this.valid) {
      let at = this.offsets[this.valid];
      for (let j = this.valid; j < i; j++) {
        at += this.heightOf(j);
        this.offsets[j + 1] = at;
      }
      this.valid = i;
    }
    return this.offsets[i];
  }

  heightOf(i) {
    return this.heights.get(this.keyOf(i)) ?? this.estimate(i);
  }

  /** The row at a distance from the top of the list. */
  rowAt(y) {
    let low = 0;
    let high = this.count - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offset(middle) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  get top() {
    return this.container.getBoundingClientRect().top + scrollY;
  }

  drawNow() {
    this.container.classList.toggle("whole", this.isWhole);
    if (this.isWhole) {
      this.container.style.height = "auto";
      this.place(0, this.count);
    } else {
      this.container.style.height = `${this.offset(this.count)}px`;
      const from = scrollY - this.top;
      const first = this.rowAt(from - MARGIN_PX);
      const last = this.rowAt(from + innerHeight + MARGIN_PX);
      this.place(first, Math.min(this.count, last + 1));
    }
    this.onShown?.();
  }

  place(first, end) {
    const wanted = new Set();
    for (let i = first; i < end; i++) wanted.add(this.keyOf(i));
    for (const [key, element] of [...this.shown]) {
      // What has the focus stays, also out of sight.
      const isKept = !this.isWhole && element.contains(document.activeElement);
      if (!wanted.has(key) && !isKept) this.drop(key, element);
    }
    // An element that is moved loses the focus, so none is that stands in order already.
    let next = this.container.firstChild;
    for (let i = first; i < end; i++) {
      while (next !== null && !wanted.has(next.dataset.key)) next = next.nextSibling;
      const element = this.elementOf(i);
      element.setAttribute("aria-posinset", i + 1);
      element.setAttribute("aria-setsize", this.count);
      element.style.transform = this.isWhole ? "" : `translateY(${this.offset(i)}px)`;
      if (next === element) next = next.nextSibling;
      else this.container.insertBefore(element, next);
    }
  }

  elementOf(i) {
    const key = this.keyOf(i);
    let element = this.shown.get(key);
    if (element === undefined) {
      element = this.make(i);
      this.shown.set(key, element);
      this.observer.observe(element);
    }
    return element;
  }

  drop(key, element) {
    this.observer.unobserve(element);
    element.remove();
    this.shown.delete(key);
  }

  measure(entries) {
    let changed = false;
    let shift = 0;
    const from = scrollY - this.top;
    for (const entry of entries) {
      const key = entry.target.dataset.key;
      if (!entry.target.isConnected || this.shown.get(key) !== entry.target) continue;
      const height = entry.borderBoxSize?.[0]?.blockSize ?? entry.target.offsetHeight;
      const i = Number(entry.target.getAttribute("aria-posinset")) - 1;
      const before = this.heightOf(i);
      this.heights.set(key, height);
      if (Math.abs(height - before) < 0.5) continue;
      changed = true;
      if (!this.isWhole && this.offset(i) + Math.min(before, height) < from) shift += height - before;
      this.valid = Math.min(this.valid, i);
    }
    if (!changed || this.isWhole) return;
    this.drawNow();
    // What is looked at stays where it is when something above it turns out to be larger.
    if (shift !== 0) scrollBy(0, shift);
  }

  /** Make the row anew, since its content or its fold changed. */
  redraw(key) {
    const element = this.shown.get(key);
    if (element === undefined) return;
    const i = Number(element.getAttribute("aria-posinset")) - 1;
    const hadFocus = element.contains(document.activeElement);
    const button = hadFocus && document.activeElement.matches("button.fold");
    const made = this.make(i);
    made.style.transform = element.style.transform;
    made.setAttribute("aria-posinset", i + 1);
    made.setAttribute("aria-setsize", this.count);
    this.observer.unobserve(element);
    element.replaceWith(made);
    this.shown.set(key, made);
    this.observer.observe(made);
    if (hadFocus) (button ? made.querySelector("button.fold") ?? made : made).focus({ preventScroll: true });
  }

  /** Forget all elements: another branch, another width. */
  clear() {
    for (const [key, element] of [...this.shown]) this.drop(key, element);
    this.valid = 0;
  }

  /** Bring row `i` into sight; `block` as of scrollIntoView. Its element may be made anew later. */
  reveal(i, margin = 120) {
    if (i < 0 || i >= this.count) return null;
    if (!this.isWhole) {
      const y = this.top + this.offset(i);
      const isSeen = y >= scrollY + margin && y + Math.min(this.heightOf(i), 200) <= scrollY + innerHeight;
      if (!isSeen) scrollTo(0, y - margin);
      this.drawNow();
      // Now that what is around it was measured, it may stand elsewhere.
      if (!isSeen) requestAnimationFrame(() => {
        scrollTo(0, this.top + this.offset(i) - margin);
        this.drawNow();
      });
    }
    const element = this.shown.get(this.keyOf(i));
    if (this.isWhole && element) element.scrollIntoView({ block: "nearest" });
    return element ?? null;
  }
}
