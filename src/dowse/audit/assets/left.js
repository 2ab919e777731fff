// Accuracy left against queries spent: a falling staircase an attack, and a heavy one of the strongest on each picture.

function drawLeft(box, t, group, width) {
  const table = DATA.tables[t], legend = legends[t], high = Math.max(table.budget, 2);
  const chart = frame({
    width, height: Math.round(Math.min(380, Math.max(250, width * 0.56))),
    label: `Accuracy of ${group.name} left against queries spent; values by arrow keys`,
    x: { log: true, low: 1, high, ticks: logTicks(1, high, width - 60), text: queryTick, name: "queries spent" },
    y: { low: 0, high: 1, ticks: [0, 0.25, 0.5, 0.75, 1], text: (v) => `${100 * v}%` },
  });
  const heavy = ([m]) => m === DATA.strongest;
  const shown = group.left.filter((one) => heavy(one) || legend.on.has(one[0]));
  const lines = draw("g"), bands = draw("g");
  for (const [m, curve] of [...shown].reverse()) {
    const strong = m === DATA.strongest, weak = !strong && legend.strong !== null && legend.strong !== m;
    if (strong) {
      bands.append(draw("path", { d: band(curve, chart.toX, chart.toY), class: "band",
        style: `fill:${colourOf(m)};stroke:${colourOf(m)};fill-opacity:.08;stroke-opacity:.2` }));
    }
    lines.append(draw("path", { d: stairs(curve, 1, chart.toX, chart.toY), fill: "none",
      class: strong ? "curve heavy" : "curve", style: `stroke:${colourOf(m)};opacity:${weak ? 0.25 : 1}` }));
  }
  chart.svg.append(bands, lines);
  const inside = (q) => Math.max(1, Math.min(high, q));
  readable(box, chart, {
    width,
    when: "after",
    at: (share) => inside(Math.round(high ** share)),
    step: (q, on) => inside(on ? Math.ceil(q * 1.12 + 0.01) : Math.floor(q / 1.12)),
    values: (q) => shown.map(([m, curve]) => [m, valueAt(curve, q)]).sort((a, b) => a[1][1] - b[1][1])
      .map(([m, [, y, least, most]]) => ({ m, y, text: percentText(y),
        more: `${(100 * least).toFixed(0)}–${(100 * most).toFixed(0)}` })),
  });
}

document.body.style.setProperty(`--c${DATA.strongest % COLOURS}`, "var(--ink)"); // the heavy line is drawn in ink
for (const slot of document.querySelectorAll(".slot-legend .legend")) {
  slot.prepend(make("span", { class: "method heavy" }, swatch(DATA.strongest), DATA.methods[DATA.strongest]));
}
figures("left", (box, t, group) => {
  let last = 0;
  whenWidthChanges(box, (width) => { last = width; drawLeft(box, t, group, width); });
  legends[t].watchers.push(() => last && drawLeft(box, t, group, last));
});
