// Success against queries: a staircase and a band a method.

function stairs(points, place, toX, toY) {
  let path = "";
  points.forEach((point, i) => {
    const x = toX(point[0]).toFixed(1), y = toY(point[place]).toFixed(1);
    path += i === 0 ? `M${x} ${y}` : `H${x}V${y}`;
  });
  return path;
}

function band(points, toX, toY) {
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
    const [fill, edge] = weak ? [0.01, 0.08] : legend.strong !== null || shown.length < 4 ? [0.14, 0.4] : [0.045, 0.4];
    bands.append(draw("path", { d: band(curve, chart.toX, chart.toY), class: "band",
      style: `fill:${colourOf(entry.m)};stroke:${colourOf(entry.m)};fill-opacity:${fill};stroke-opacity:${edge}` }));
    lines.append(draw("path", { d: path, fill: "none", class: "curve", "stroke-dasharray": dashOf(entry.m),
      style: `stroke:${colourOf(entry.m)};opacity:${weak ? 0.25 : 1}` }));
  }
  chart.svg.append(ghosts, bands, lines);
  const inside = (q) => Math.max(low, Math.min(table.budget, q));
  readable(box, chart, {
    width,
    when: "within",
    at: (share) => inside(Math.round(low * (table.budget / low) ** share)),
    step: (q, on) => inside(on ? Math.ceil(q * 1.12 + 0.01) : Math.floor(q / 1.12)),
    values: (q) => shown.map((entry) => [entry.m, valueAt(entry.curve, q)]).sort((a, b) => b[1][1] - a[1][1])
      .map(([m, [, y, least, most]]) => ({ m, y, text: percentText(y),
        more: `${(100 * least).toFixed(0)}–${(100 * most).toFixed(0)}` })),
  });
}

figures("curves", (box, t, group) => {
  let last = 0;
  whenWidthChanges(box, (width) => { last = width; drawCurves(box, t, group, width); });
  legends[t].watchers.push(() => last && drawCurves(box, t, group, last));
});
