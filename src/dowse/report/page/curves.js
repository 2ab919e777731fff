// Success against queries: a staircase and a band a method, a line that follows the pointer, its values beside it.

function stairs(points, place, toX, toY) {
  let path = "";
  points.forEach((point, i) => {
    const x = toX(point[0]).toFixed(1), y = toY(point[place]).toFixed(1);
    path += i === 0 ? `M${x} ${y}` : `H${x}V${y}`;
  });
  return path;
}

function band(all, toX, toY) {
  const points = all.slice(Math.max(0, all.findIndex((point) => point[1] > 0)));
  const upper = stairs(points, 3, toX, toY);
  let lower = "";
  for (let i = points.length - 1; i >= 0; i--) {
    const y = toY(points[i][2]).toFixed(1);
    lower += `L${toX(points[i][0]).toFixed(1)} ${y}`;
    if (i > 0) lower += `V${toY(points[i - 1][2]).toFixed(1)}`;
  }
  return `${upper}${lower}Z`;
}

function valueAt(curve, q) {
  let found = curve[0];
  for (const point of curve) {
    if (point[0] > q) break;
    found = point;
  }
  return found;
}

function drawCurves(box, t, group, width) {
  const table = DATA.tables[t], legend = legends[t];
  const height = Math.round(Math.min(380, Math.max(250, width * 0.56)));
  const entries = group.entries.filter((entry) => entry.curve.length);
  const low = startOf(entries.map((entry) => entry.curve.find((point) => point[1] > 0)?.[0] ?? table.budget), table.budget);
  const chart = frame({
    width, height, label: `Share of images of ${group.name} fooled against queries; values by arrow keys`,
    x: { log: true, low, high: Math.max(table.budget, 2), ticks: logTicks(low, table.budget, width - 60),
      text: queryTick, name: "queries" },
    y: { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1], text: (v) => `${100 * v}%` },
  });
  const shown = entries.filter((entry) => legend.on.has(entry.m));
  const ghosts = draw("g", { class: "ghosts" }), bands = draw("g"), lines = draw("g");
  for (const entry of entries) {
    const curve = entry.curve;
    const path = stairs(curve, 1, chart.toX, chart.toY);
    if (!legend.on.has(entry.m)) {
      ghosts.append(draw("path", { d: path, fill: "none" }));
      continue;
    }
    const weak = legend.strong !== null && legend.strong !== entry.m;
    bands.append(draw("path", { d: band(curve, chart.toX, chart.toY), class: "band",
      style: `fill:${colourOf(entry.m)};opacity:${weak ? 0.02 : legend.strong !== null || shown.length < 4 ? 0.15 : shown.length < 6 ? 0.06 : 0.035}` }));
    lines.append(draw("path", { d: path, fill: "none", class: "curve", "stroke-dasharray": dashOf(entry.m),
      style: `stroke:${colourOf(entry.m)};opacity:${weak ? 0.25 : 1}` }));
  }
  const pointer = draw("g", { class: "pointer", visibility: "hidden" });
  chart.svg.append(ghosts, bands, lines, pointer);
  chart.svg.setAttribute("tabindex", "0");
  const tip = box.querySelector(".tip");

  const point = (q) => {
    const x = chart.toX(q);
    pointer.replaceChildren(draw("line", { x1: x, x2: x, y1: chart.inside.top, y2: chart.inside.bottom }));
    const values = shown.map((entry) => [entry, valueAt(entry.curve, q)]).sort((a, b) => b[1][1] - a[1][1]);
    for (const [entry, value] of values) {
      pointer.append(draw("circle", { cx: x, cy: chart.toY(value[1]), r: 3.5, style: `fill:${colourOf(entry.m)}` }));
    }
    pointer.setAttribute("visibility", "visible");
    tip.replaceChildren(make("p", {}, `within ${plural(q, "query")}`), ...values.slice(0, 12).map(([entry, value]) =>
      make("p", {}, swatch(entry.m), make("b", {}, percentText(value[1])),
        make("span", {}, ...named(DATA.methods[entry.m])),
        make("small", {}, ` ${(100 * value[2]).toFixed(0)}–${(100 * value[3]).toFixed(0)}`))));
    tip.hidden = false;
    const half = x > width / 2;
    tip.style.left = half ? "auto" : `${x + 14}px`;
    tip.style.right = half ? `${width - x + 14}px` : "auto";
    box.dataset.q = q;
  };
  const leave = () => { pointer.setAttribute("visibility", "hidden"); tip.hidden = true; };
  chart.svg.addEventListener("pointermove", (event) => {
    const x = event.clientX - chart.svg.getBoundingClientRect().left;
    const share = (x - chart.inside.left) / (chart.inside.right - chart.inside.left);
    if (share < -0.02 || share > 1.02) return leave();
    const across = Math.min(1, Math.max(0, share));
    point(Math.min(table.budget, Math.round(low * (table.budget / low) ** across)));
  });
  chart.svg.addEventListener("pointerleave", leave);
  chart.svg.addEventListener("blur", leave);
  chart.svg.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
    const now = Number(box.dataset.q ?? Math.round(Math.sqrt(low * table.budget)));
    const next = event.key === "ArrowRight" ? Math.ceil(now * 1.12 + 0.01) : Math.floor(now / 1.12);
    point(Math.max(low, Math.min(table.budget, next)));
  });
  box.querySelector("svg.chart")?.remove();
  chart.svg.classList.add("chart");
  box.prepend(chart.svg);
}

for (const slot of slots("curves")) {
  const t = Number(slot.dataset.t);
  const grid = make("div", { class: "charts" });
  slot.append(grid);
  for (const group of DATA.tables[t].groups) {
    const box = make("div", { class: "plot" }, make("div", { class: "tip", hidden: true }));
    grid.append(make("figure", {}, make("figcaption", {}, group.name), box));
    let last = 0;
    whenWidthChanges(box, (width) => { last = width; drawCurves(box, t, group, width); });
    legends[t].watchers.push(() => last && drawCurves(box, t, group, last));
  }
}
