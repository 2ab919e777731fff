// Traces: what an attack noted on its way, one small chart a name, one line a method.

const NAMES = { loss: "loss f(x)", alpha: "α, cosine of prior and gradient", lam: "λ", mu: "μ", sigma: "σ",
  norm: "‖∇f‖, estimated", a_square: "A²", cosine: "cosine to the true gradient" };
const DOTTED = 16; // a line of no more points shows them
const ORDER = ["loss", "alpha", "lam", "mu", "cosine", "norm", "sigma", "a_square"];

function drawTrace(box, name, lines, last, width) {
  const ys = lines.flatMap(({ values }) => values);
  let low = Math.min(...ys), high = Math.max(...ys);
  if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
  const ticks = ys.every((y) => y === ys[0]) ? [ys[0]] : niceTicks(low, high, 4);
  const chart = frame({
    width, height: 190, left: Math.max(46, 12 + Math.max(...ticks.map((tick) => textWidth(shortNumber(tick))))), label: `${NAMES[name] ?? name} against queries; values by arrow keys`, bottom: 38,
    x: { low: 0, high: last, ticks: niceTicks(0, last, Math.max(2, Math.min(6, width / 90))), text: queryTick, name: "queries" },
    y: { low, high, ticks, text: shortNumber },
  });
  for (const { m, at, values } of lines) {
    const path = values.map((v, i) => `${i ? "L" : "M"}${chart.toX(at[i]).toFixed(1)} ${chart.toY(v).toFixed(1)}`).join("");
    const style = `stroke:${colourOf(m)}`;
    chart.svg.append(draw("path", { d: path, fill: "none", class: "curve", style, "stroke-dasharray": dashOf(m) }));
    if (values.length <= DOTTED) {
      chart.svg.append(...values.map((v, i) => draw("circle", { class: "dot", cx: chart.toX(at[i]), cy: chart.toY(v), r: 3,
        style: `fill:${colourOf(m)}` })));
    }
  }
  const inside = (q) => Math.max(0, Math.min(last, Math.round(q)));
  readable(box, chart, {
    width,
    when: "after",
    at: (share) => inside(share * last),
    step: (q, on) => inside(q + (on ? 1 : -1) * Math.max(1, last / 30)),
    values: (q) => lines.map(({ m, at, values }) => [m, at.findLastIndex((one) => one <= q), values])
      .filter(([, i, values]) => i >= 0 && i < values.length)
      .map(([m, i, values]) => ({ m, y: values[i], text: shortNumber(values[i]) })),
  });
}

// Queries are carried as steps, or as the name of a column that was noted at the same queries.
function queriesOf(trace, name) {
  const kept = trace[`${name}@`];
  let sum = 0;
  return (typeof kept === "string" ? trace[kept] : kept).map((by) => (sum += by));
}

function showTraces(grid, { table, t, group }, image) {
  const traces = group.traces[image] ?? {};
  const found = new Map();
  for (const [entry, trace] of Object.entries(traces)) {
    const m = group.entries[entry].m;
    if (!legends[t].on.has(m)) continue;
    for (const [name, values] of Object.entries(trace)) {
      if (name.endsWith("@")) continue;
      if (!found.has(name)) found.set(name, []);
      found.get(name).push({ m, at: queriesOf(trace, name), values });
    }
  }
  const last = Math.max(1, ...[...found.values()].flat().flatMap(({ at }) => at));
  const place = (name) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  const names = [...found.keys()].sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  grid.replaceChildren(...names.map((name) => {
    const box = make("div", { class: "plot" });
    whenWidthChanges(box, (width) => drawTrace(box, name, found.get(name), last, width));
    return make("figure", {}, make("figcaption", {}, NAMES[name] ?? name), box);
  }));
  if (!names.length) grid.replaceChildren(make("p", { class: "note" }, "No method of the legend left a trace of this image."));
}

for (const slot of slots("traces")) {
  const places = GROUPS.filter(({ group }) => Object.keys(group.traces).length);
  const grid = make("div", { class: "charts small" }), key = make("div", { class: "legend", "aria-hidden": "true" });
  const imageBox = make("span");
  let now = places[0], image = null;
  const show = () => {
    showTraces(grid, now, image);
    key.replaceChildren(...legends[now.t].order.filter((m) => legends[now.t].on.has(m)).slice(0, 16)
      .map((m) => make("span", { class: "method" }, swatch(m), make("span", {}, ...named(DATA.methods[m])))));
  };
  const chooseImage = () => {
    const known = Object.keys(now.group.traces).map(Number).sort((a, b) => a - b);
    const label = select("Image", known.map((i) => [i, `${now.group.images[i][0]} · ${now.group.images[i][1]}`]),
      (value) => { image = value; show(); });
    image = String(known[0]);
    imageBox.replaceChildren(label);
  };
  const chooseTarget = (one) => { now = one; chooseImage(); show(); };
  slot.append(make("div", { class: "controls" }, targetChoice(places, chooseTarget), imageBox), key, grid);
  if (now) chooseTarget(now);
  DATA.tables.forEach((table, t) => legends[t].watchers.push(() => { if (now && now.t === t && legends[t].strong === null) show(); }));
}
