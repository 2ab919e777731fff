// Axes: a frame with a log or linear scale across and a linear scale up, and the ticks of both.

function logTicks(low, high, room) {
  const ticks = [];
  const steps = room / Math.max(1, Math.log10(high / low)) > 150 ? [1, 2, 5] : [1];
  for (let decade = 1; decade <= high; decade *= 10) {
    for (const step of steps) if (step * decade >= low && step * decade <= high) ticks.push(step * decade);
  }
  return ticks;
}

function niceTicks(low, high, wanted) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / wanted;
  const decade = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((s) => s * decade).find((s) => s >= raw);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

const shortNumber = (value) => {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000 || size < 1e-3) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(3)));
};

// How wide a text of a chart is, in pixels.
const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  measuring.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return measuring.measureText(text).width;
}

// Where a log axis may begin: one of 1, 2, 5, 10, … well below the smallest value.
function startOf(values, budget) {
  const smallest = Math.min(budget, ...values.filter((value) => value !== null && value > 0));
  let start = 1;
  for (let decade = 1; decade <= smallest; decade *= 10) {
    for (const step of [1, 2, 5]) if (step * decade * 1.6 <= smallest) start = step * decade;
  }
  return start;
}

const queryTick = (q) => (q >= 1000 ? `${q / 1000}k` : String(q));

function frame({ width, height, left = 46, right = 12, top = 12, bottom = 40, x, y, label }) {
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const inside = { left, top, right: width - right, bottom: height - bottom };
  const toX = x.log
    ? (q) => left + ((inside.right - left) * Math.log(Math.max(q, x.low) / x.low)) / (Math.log(x.high / x.low) || 1)
    : (q) => left + ((inside.right - left) * (q - x.low)) / (x.high - x.low || 1);
  const toY = (v) => inside.bottom - ((inside.bottom - top) * (v - y.low)) / (y.high - y.low || 1);
  const grid = draw("g", { class: "grid" });
  for (const tick of y.ticks) {
    grid.append(draw("line", { x1: left, x2: inside.right, y1: toY(tick), y2: toY(tick) }));
    const text = draw("text", { x: left - 8, y: toY(tick), "text-anchor": "end", "dominant-baseline": "middle" });
    text.textContent = y.text(tick);
    grid.append(text);
  }
  for (const tick of x.ticks) {
    grid.append(draw("line", { class: "tick", x1: toX(tick), x2: toX(tick), y1: inside.bottom, y2: inside.bottom + 4 }));
    const text = draw("text", { x: toX(tick), y: inside.bottom + 17, "text-anchor": "middle" });
    text.textContent = x.text(tick);
    grid.append(text);
  }
  if (x.name) {
    const name = draw("text", { class: "name", x: (left + inside.right) / 2, y: height - 4, "text-anchor": "middle" });
    name.textContent = x.name;
    grid.append(name);
  }
  grid.append(draw("line", { class: "base", x1: left, x2: inside.right, y1: inside.bottom, y2: inside.bottom }));
  svg.append(grid);
  return { svg, toX, toY, inside };
}
