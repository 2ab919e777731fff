// Medians: a dot and its interval a method, the fastest on top.

function drawMedians(box, t, group, width) {
  const table = DATA.tables[t];
  const entries = [...group.entries].sort((a, b) => rank(a.median[0]) - rank(b.median[0]));
  const names = Math.min(220, Math.max(96, width * 0.34));
  const height = 24 * entries.length + 44;
  const from = startOf(entries.flatMap((entry) => entry.median.slice(0, 2)), table.budget);
  const chart = frame({
    width, height, left: names, right: 52, top: 4, bottom: 40, label: `Median queries against ${group.name}`,
    x: { log: true, low: from, high: Math.max(table.budget, 2), ticks: logTicks(from, table.budget, width - names - 60),
      text: queryTick, name: "median queries" },
    y: { low: 0, high: 1, ticks: [], text: String },
  });
  entries.forEach((entry, i) => {
    const y = 16 + 24 * i, colour = colourOf(entry.m);
    const [median, low, high] = entry.median;
    const name = draw("text", { class: "method", x: 0, y, "dominant-baseline": "middle" });
    name.append(...lowered(named(fitted(DATA.methods[entry.m], names - 12), (text) => ({ text }))));
    const title = draw("title");
    title.textContent = `${DATA.methods[entry.m]}: median ${queriesText(median)}, 95 % interval ${queriesText(low)} to ${queriesText(high)}`;
    const row = draw("g", { class: "median" }, title, name);
    if (low !== null) {
      const start = chart.toX(low === -1 ? table.budget : Math.max(1, low));
      const end = high === -1 ? chart.inside.right : chart.toX(high);
      row.append(draw("line", { x1: chart.inside.left, x2: chart.inside.right, y1: y, y2: y, class: "rail" }),
        draw("line", { x1: start, x2: end, y1: y, y2: y, style: `stroke:${colour}`, class: "whisker" }));
      if (high === -1) row.append(draw("path", { d: `M${end} ${y - 4}l6 4l-6 4z`, style: `fill:${colour}` }));
    }
    if (median !== null && median !== -1) {
      row.append(draw("circle", { cx: chart.toX(Math.max(1, median)), cy: y, r: 4.5, style: `fill:${colour}` }));
    }
    const value = draw("text", { class: "value", x: width, y, "text-anchor": "end", "dominant-baseline": "middle" });
    value.textContent = queriesText(median);
    row.append(value);
    chart.svg.append(row);
  });
  box.replaceChildren(chart.svg);
}

// Text of an SVG, where a piece below the line is a smaller one that is moved down and back.
function lowered(pieces) {
  return pieces.map((piece, i) => {
    const low = typeof piece === "object", back = i > 0 && typeof pieces[i - 1] === "object";
    const span = draw("tspan", low ? { dy: 3, "font-size": "75%" } : back ? { dy: -3 } : {});
    span.textContent = low ? piece.text : piece;
    return span;
  });
}

const rank = (median) => (median === null ? Infinity : median === -1 ? 1e12 : median);
const fitted = (text, room) => {
  const most = Math.max(4, Math.floor(room / 6.6));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
};

for (const slot of slots("medians")) {
  const t = Number(slot.dataset.t);
  const grid = make("div", { class: "charts" });
  slot.append(grid);
  for (const group of DATA.tables[t].groups) {
    const box = make("div", { class: "plot" });
    grid.append(make("figure", {}, make("figcaption", {}, group.name), box));
    whenWidthChanges(box, (width) => drawMedians(box, t, group, width));
  }
}
