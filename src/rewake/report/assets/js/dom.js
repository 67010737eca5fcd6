// Elements from descriptions. Text only ever becomes a text node: there is no way here to make markup
// of it, and the page's policy has none either (Trusted Types).

/** An element: `props` are attributes, `on…` listeners, and `class`; children are nodes, texts, null. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

export function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** An icon drawn from one path on a 16 × 16 grid; hidden from those who listen. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

const ICONS = {
  chevron: "M6 4l4 4-4 4",
  theme: "M8 2a6 6 0 1 0 0 12V2z",
  print: "M4 6V2h8v4M4 12H2V6h12v6h-2M4 10h8v4H4z",
  help: "M6 6a2 2 0 1 1 3 1.7c-.7.4-1 .8-1 1.6M8 12v.3",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  branch: "M5 2v9M5 11a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3M11 6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3M11 6c0 3-6 2-6 5",
  back: "M10 4L6 8l4 4",
  close: "M4 4l8 8M12 4l-8 8",
  menu: "M2 4h12M2 8h12M2 12h12",
};

/** Tell those who listen. */
export function announce(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  live.textContent = text;
}

/** Once a frame at most, whatever happens in it. */
export function eachFrame(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      work();
    });
  };
}

export function afterAWhile(work, ms) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), ms);
  };
}
