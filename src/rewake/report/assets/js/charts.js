// Where the time went and how full the context was, step by step. Drawn by uPlot; what is pointed at, or
// reached with the arrow keys, is told in words below.

import { announce, h } from "./dom.js";
import { clock, duration, many, short } from "./text.js";

const HEIGHT_PX = 132;
const SYNC = "steps";

/** Both charts and the words below them; `goTo(row)` shows a step in the conversation. */
export class Charts {
  constructor(story, goTo) {
    this.story = story;
    this.goTo = goTo;
    this.plots = [];
    this.at = -1;
    this.words = h("p", { class: "chart-words", id: "chart-words" });
    this.time = h("div", { class: "chart" });
    this.context = h("div", { class: "chart" });
    this.section = this.build();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.time);
  }

  get count() {
    return this.story.steps.row.length;
  }

  build() {
    const legend = (name, text) => h("span", { class: "key" }, h("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text);
    this.contextFigure = h(
      "figure",
      {},
      h("figcaption", {}, h("strong", {}, "Context"), " tokens the model was sent ", legend("context", "context"), legend("compaction", "compaction")),
      this.context,
    );
    const focusable = h(
      "div",
      { class: "charts", tabindex: "0", role: "group", "aria-label": "Steps: left and right arrow go from step to step, Enter shows the step", "aria-describedby": "chart-words", onkeydown: (event) => this.key(event) },
      h("figure", {}, h("figcaption", {}, h("strong", {}, "Time"), " of each step ", legend("model", "model"), legend("tools", "tools"), legend("waited", "waiting")), this.time),
      this.contextFigure,
    );
    return h("details", { class: "timeline", open: true }, h("summary", {}, h("h2", {}, "Timeline"), h("span", { class: "muted", id: "timeline-count" })), focusable, this.words);
  }

  draw() {
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
    this.section.hidden = this.count === 0;
    if (this.count === 0) return;
    const { compactions } = this.story.steps;
    this.section.querySelector("#timeline-count").textContent = `${many(this.count, "step")}${compactions.length ? `, ${many(compactions.length, "compaction")}` : ""}`;
    const width = this.time.clientWidth || 600;
    const xs = Array.from({ length: this.count }, (_, step) => step + 1);
    this.plots.push(this.timeChart(width, xs));
    const hasContext = this.story.steps.input.some((tokens) => tokens > 0);
    this.contextFigure.hidden = !hasContext;
    if (hasContext) this.plots.push(this.contextChart(width, xs));
    this.tell(-1);
  }

  /** The style's colours as the canvas takes them. */
  colours() {
    const probe = h("span", { hidden: true });
    this.section.append(probe);
    const names = ["muted", "line", "model", "tools", "waited", "context", "compaction"];
    const found = names.map((name) => {
      probe.style.color = `var(--${name})`;
      return [name, getComputedStyle(probe).color];
    });
    probe.remove();
    return Object.fromEntries(found);
  }

  timeChart(width, xs) {
    const { model, tools, waited } = this.story.steps;
    const c = this.colours();
    const second = (ms) => ms / 1000;
    const bars = uPlot.paths.bars({ size: [0.8, 40], align: 0 });
    const series = (label, colour) => ({ label, fill: colour, stroke: colour, width: 0, paths: bars, points: { show: false } });
    // Later series are drawn over earlier ones, so the sums come first.
    const data = [xs, model.map((ms, i) => second(ms + tools[i] + waited[i])), model.map((ms, i) => second(ms + tools[i])), model.map(second)];
    const options = this.options(width, [{}, series("waiting", c.waited), series("tools", c.tools), series("model", c.model)], (value) => duration(value * 1000));
    return new uPlot(options, data, this.time);
  }

  contextChart(width, xs) {
    const { input, compactions } = this.story.steps;
    const c = this.colours();
    const filled = input.map((tokens) => tokens || null);
    const options = this.options(width, [{}, { label: "context", stroke: c.context, width: 1.5, fill: c.context.replace("rgb(", "rgba(").replace(")", ", 0.12)"), spanGaps: true, points: { show: xs.length < 80, size: 5 } }], short);
    options.hooks.draw = [(plot) => this.drawCompactions(plot, compactions, c.compaction)];
    return new uPlot(options, [xs, filled], this.context);
  }

  drawCompactions(plot, compactions, colour) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.setLineDash([4, 3]);
    ctx.beginPath();
    for (const [step] of compactions) {
      const x = Math.round(plot.valToPos(step + 0.5, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
  }

  options(width, series, format) {
    const c = this.colours();
    const axis = { stroke: c.muted, grid: { stroke: c.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width,
      height: HEIGHT_PX,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: SYNC }, drag: { x: true, y: false }, points: { show: false }, y: false },
      scales: { x: { time: false, range: (_plot, low, high) => [Math.min(low, high - 1) - 0.6, high + 0.6] }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.05] } },
      axes: [
        { ...axis, size: 22, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000] },
        { ...axis, size: 58, values: (_plot, splits) => splits.map((value) => format(value)) },
      ],
      series,
      hooks: { setCursor: [(plot) => this.pointed(plot)], ready: [(plot) => plot.over.addEventListener("click", () => this.show())] },
    };
  }

  pointed(plot) {
    if (plot.cursor.idx !== null && plot.cursor.idx !== undefined && plot.cursor.left >= 0) this.tell(plot.cursor.idx);
  }

  /** What a step was, in words. */
  tell(step) {
    this.at = step;
    const { begun, model, tools, waited, input, output, cached } = this.story.steps;
    if (step < 0 || step >= this.count) {
      this.words.textContent = "Point at a step, or use the arrow keys here; Enter or a click shows it. Drag to look closer, double-click to see all.";
      return;
    }
    const parts = [`Step ${step + 1} at ${clock(begun[step])}: model ${duration(model[step])}`];
    if (tools[step]) parts.push(`tools ${duration(tools[step])}`);
    if (waited[step]) parts.push(`waiting ${duration(waited[step])}`);
    if (input[step]) parts.push(`context ${short(input[step])} tokens${cached[step] ? ` (${Math.round((100 * cached[step]) / input[step])} % cached)` : ""}, ${short(output[step])} written`);
    this.words.textContent = parts.join(" · ");
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key === "Enter") this.show();
    else if (event.key in moves) {
      const next = Math.max(0, Math.min(this.count - 1, this.at + moves[event.key]));
      for (const plot of this.plots) plot.setCursor({ left: plot.valToPos(next + 1, "x"), top: 10 }, false);
      this.tell(next);
      announce(this.words.textContent);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  show() {
    if (this.at >= 0 && this.at < this.count) this.goTo(this.story.steps.row[this.at]);
  }

  resize() {
    const width = this.time.clientWidth;
    if (!width) return;
    for (const plot of this.plots) if (plot.width !== width) plot.setSize({ width, height: HEIGHT_PX });
  }
}
