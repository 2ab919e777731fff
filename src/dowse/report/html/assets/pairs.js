// Method against method: a matrix of wins and losses, tinted by Wilcoxon's p.

const WIDE = 12; // with more methods than this a cell shows its share of wins alone

function pairWords(methods, [a, b, n, wins, losses, mean, sign, wilcoxon, ranks]) {
  if (!n) return `${methods[a]} and ${methods[b]} have no image in common.`;
  const more = mean > 0 ? "more" : "fewer", ahead = ranks ? ` for ${methods[ranks < 0 ? a : b]}` : "";
  return `${methods[a]} against ${methods[b]}, ${plural(n, "image")}: fewer queries on ${wins}, more on ${losses}, ` +
    `the same on ${n - wins - losses}; on average ${queriesText(Math.abs(mean))} ${more}. ` +
    `Wilcoxon ${pText(wilcoxon)}${ahead}, sign test ${pText(sign)}.`;
}

// `ranks` is the sign of Wilcoxon's rank sum, below zero if it speaks for the row: its p says nothing about wins.
function tint(ranks, p) {
  if (!ranks || p >= 0.05) return "even";
  const strength = p < 0.001 ? 3 : p < 0.01 ? 2 : 1;
  return `${ranks < 0 ? "better" : "worse"} s${strength}`;
}

// One cell can be reached by Tab; arrow keys go on from it.
function walk(event) {
  const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  const cell = event.target.closest("td[data-pair]");
  if (!by || !cell) return;
  event.preventDefault();
  const table = cell.closest("table");
  let [i, j] = cell.dataset.pair.split(",").map(Number), next = null;
  const n = table.tBodies[0].rows.length;
  do {
    i += by[0];
    j += by[1];
    next = table.querySelector(`td[data-pair="${i},${j}"]`);
  } while (!next && i >= 0 && j >= 0 && i < n && j < n);
  if (!next) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function drawPairs(box, { table, group }) {
  const entries = group.entries;
  const methods = entries.map((entry) => DATA.methods[entry.m]);
  const known = new Map();
  for (const [i, j, n, wins, losses, mean, sign, wilcoxon, ranks] of group.pairs) {
    known.set(`${i},${j}`, [i, j, n, wins, losses, mean, sign, wilcoxon, ranks]);
    known.set(`${j},${i}`, [j, i, n, losses, wins, mean === null ? null : -mean, sign, wilcoxon, -ranks]);
  }
  const wide = entries.length > WIDE;
  const readout = make("p", { class: "readout", role: "status" }, "Point at a cell for its sentence, or go there with Tab and the arrow keys.");
  const say = (event) => {
    const cell = event.target.closest("td[data-pair]");
    if (cell) readout.textContent = pairWords(methods, known.get(cell.dataset.pair));
  };
  const rows = entries.map((entry, i) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "number" }, String(i + 1)), " ", ...named(methods[i])),
    ...entries.map((other, j) => {
      if (i === j) return make("td", { class: "self" });
      const pair = known.get(`${i},${j}`);
      if (!pair || !pair[2]) return make("td", {}, "–");
      const [, , n, wins, losses, , , p, ranks] = pair;
      return make("td", { class: tint(ranks, p), "data-pair": `${i},${j}`, tabindex: "-1",
        title: wide ? pairWords(methods, pair) : null },
        wide ? String(Math.round((100 * (wins + (n - wins - losses) / 2)) / n)) : make("span", {}, `${wins}–${losses}`),
        wide ? null : make("small", {}, pText(p).replace("p = ", "p ").replace("p < ", "p <")));
    })));
  const head = make("tr", {}, make("th", { scope: "col" }, wide ? "% won against" : "fewer – more queries than"),
    ...entries.map((entry, j) => make("th", { scope: "col", title: methods[j] },
      wide ? String(j + 1) : make("span", {}, make("span", { class: "number" }, String(j + 1)), " ", ...named(methods[j])))));
  const matrix = make("table", { class: wide ? "pairs wide" : "pairs", onpointerover: say, onfocusin: say, onkeydown: walk },
    make("thead", {}, head), make("tbody", {}, ...rows));
  matrix.querySelector("td[data-pair]")?.setAttribute("tabindex", "0");
  box.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region",
    "aria-label": `Method against method, ${group.name}` }, matrix), readout,
  wide ? make("p", { class: "explain" }, "Numbers are the share of images, in per cent, on which the row needed fewer queries than the column; ties count half.") : "");
}

for (const slot of slots("pairs")) {
  const several = GROUPS.filter(({ group }) => group.entries.length > 1);
  const box = make("div"), choice = targetChoice(several, (one) => drawPairs(box, one));
  slot.append(choice && make("div", { class: "controls" }, choice), box);
  if (several.length) drawPairs(box, several[0]);
}
