// Medians: a dot and its interval a method, the fastest on top.

// A name in lines no wider than its room, so that nothing of it is lost; a word is broken only if it must be.
function wrapped(name, room) {
  const lines = [""];
  for (let word of name.split(/(?<=[ ,])/)) {
    if (lines.at(-1) && textWidth(lines.at(-1) + word.trimEnd()) > room) lines.push("");
    while (textWidth(word.trimEnd()) > room) {
      let end = word.length - 1;
      while (end > 1 && textWidth(word.slice(0, end)) > room) end -= 1;
      lines[lines.length - 1] += word.slice(0, end);
      lines.push("");
      word = word.slice(end);
    }
    lines[lines.length - 1] += word;
  }
  return lines;
}

function drawMedians(box, t, group, width) {
  const table = DATA.tables[t];
  const entries = [...group.entries].sort((a, b) => rank(a.median[0]) - rank(b.median[0]));
  const widest = Math.max(...entries.map((entry) => textWidth(DATA.methods[entry.m]))) + 16;
  const beside = widest <= Math.max(96, width * 0.42); // else a name stands on lines of its own
  const names = beside ? widest : 6;
  const lines = entries.map((entry) => (beside ? [DATA.methods[entry.m]] : wrapped(DATA.methods[entry.m], width - 8)));
  const heights = lines.map((one) => (beside ? 24 : 15 * one.length + 23));
  const height = heights.reduce((sum, one) => sum + one, 0) + 44;
  const from = startOf(entries.flatMap((entry) => entry.median.slice(0, 2)), table.budget);
  const chart = frame({
    width, height, left: names, right: 52, top: 4, bottom: 40, label: `Median queries against ${group.name}`,
    x: { log: true, low: from, high: Math.max(table.budget, 2), ticks: logTicks(from, table.budget, width - names - 60),
      text: queryTick, name: "median queries" },
    y: { low: 0, high: 1, ticks: [], text: String },
  });
  let top = 4;
  entries.forEach((entry, i) => {
    const y = beside ? top + 12 : top + 15 * lines[i].length + 8, colour = colourOf(entry.m);
    const [median, low, high] = entry.median;
    const name = lines[i].map((line, k) => draw("text", { class: "method", x: 0, y: beside ? y : top + 8 + 15 * k,
      "dominant-baseline": "middle" }, ...lowered(named(line, (text) => ({ text })))));
    top += heights[i];
    const title = draw("title");
    title.textContent = `${DATA.methods[entry.m]}: median ${queriesText(median)}, 95 % interval ${queriesText(low)} to ${queriesText(high)}`;
    const row = draw("g", { class: "median" }, title, ...name);
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

figures("medians", (box, t, group) => whenWidthChanges(box, (width) => drawMedians(box, t, group, width)));
