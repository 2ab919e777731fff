// What every part uses: the data, elements made without any HTML text, numbers in words, colours, copying.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2 1 2"];
const COLOURS = 8;

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [word, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (word.startsWith("on")) element.addEventListener(word.slice(2), value);
    else element.setAttribute(word, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [word, value] of Object.entries(attributes)) element.setAttribute(word, value);
  element.append(...children);
  return element;
}

const slots = (name) => [...document.querySelectorAll(`.slot-${name}`)];

// -1 stands for infinite, null for a number that does not exist.
function queriesText(value) {
  if (value === null || value === undefined) return "–";
  if (value === -1) return "∞";
  return value < 9.95 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value).toLocaleString("en-US");
}
const percentText = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}%`);
const pText = (p) => (p < 1e-4 ? "p < 0.0001" : `p = ${p < 0.1 ? Number(p.toPrecision(2)) : p.toFixed(2)}`);
const plural = (n, word) => `${n.toLocaleString("en-US")} ${n === 1 ? word : word.replace(/y$/, "ie") + "s"}`;

// A method's title as the paper writes it: what stands behind _ in capitals is a subscript.
function named(title, low = (text) => make("sub", {}, text)) {
  return title.split(/_([A-Z]{1,3})(?![A-Za-z0-9_])/).map((piece, i) => (i % 2 ? low(piece) : piece));
}

const colourOf = (method) => `var(--c${method % COLOURS})`;
const dashOf = (method) => DASHES[Math.floor(method / COLOURS) % DASHES.length];

function swatch(method) {
  return draw("svg", { class: "line", width: 26, height: 10, viewBox: "0 0 26 10", "aria-hidden": "true" },
    draw("line", { x1: 1, x2: 25, y1: 5, y2: 5, style: `stroke:${colourOf(method)}`, "stroke-width": 2.5,
      "stroke-dasharray": dashOf(method) }));
}

function dot(method) {
  const mark = make("span", { class: "swatch" });
  mark.style.background = colourOf(method);
  return mark;
}

function whenWidthChanges(element, redraw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(element.clientWidth);
    if (now && now !== width) {
      width = now;
      redraw(now);
    }
  }).observe(element);
}

// A figure a target in every slot of a kind; `fill` draws in its box.
function figures(kind, fill) {
  for (const slot of slots(kind)) {
    const t = Number(slot.dataset.t);
    const grid = make("div", { class: "charts" });
    slot.append(grid);
    for (const group of DATA.tables[t].groups) {
      const box = make("div", { class: "plot" });
      grid.append(make("figure", {}, make("figcaption", {}, group.name), box));
      fill(box, t, group);
    }
  }
}

function select(label, options, onchange) {
  const box = make("select", { onchange: () => onchange(box.value) },
    ...options.map(([value, text]) => make("option", { value }, text)));
  return make("label", {}, `${label} `, box);
}

const GROUPS = DATA.tables.flatMap((table, t) => table.groups.map((group) => ({ table, t, group })));
const groupTitle = ({ table, group }) =>
  DATA.tables.length > 1 ? `${group.name}, ${table.short}` : group.name;

// A choice of a target, or of a method against one; nothing where there is but one to choose.
const targetChoice = (places, onchange) => (places.length < 2 ? "" :
  select("Target", places.map((one, i) => [i, groupTitle(one)]), (i) => onchange(places[i])));
const methodChoice = ({ group }, onchange) => (group.entries.length < 2 ? "" :
  select("Method", [["", "All methods"], ...group.entries.map((e) => [e.m, DATA.methods[e.m]])], onchange));

// The theme: as the system has it, or the reader's choice, which is kept where the browser allows it.
const themes = ["system", "light", "dark"];
const themeButton = document.getElementById("theme");
function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeButton.dataset.now = name;
  themeButton.textContent = { system: "◐ Auto", light: "○ Light", dark: "● Dark" }[name];
  themeButton.setAttribute("aria-label", `Colours: ${name}. Change`);
}
let theme = "system";
try { theme = localStorage.getItem("dowse-theme") ?? "system"; } catch { /* a page from disk may have no storage */ }
setTheme(themes.includes(theme) ? theme : "system");
themeButton.addEventListener("click", () => {
  const next = themes[(themes.indexOf(themeButton.dataset.now) + 1) % themes.length];
  setTheme(next);
  try { localStorage.setItem("dowse-theme", next); } catch { /* then it holds until the page is closed */ }
});

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { class: "off" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
for (const button of document.querySelectorAll("button.copy")) {
  button.addEventListener("click", async () => {
    await copyText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
for (const mark of document.querySelectorAll(".swatch[data-m]")) mark.style.background = colourOf(Number(mark.dataset.m));

// On paper what opens by a click stands open, but for the long lists of names.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open]):not(.run)")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
