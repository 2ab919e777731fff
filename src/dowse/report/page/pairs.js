// Method against method: a matrix of wins and losses, tinted by Wilcoxon's p.

const WIDE = 12; // with more methods than this a cell shows its share of wins alone

function pairWords(methods, [a, b, n, wins, losses, mean, sign, wilcoxon]) {
  if (!n) return `${methods[a]} and ${methods[b]} have no image in common.`;
  const more = mean > 0 ? "more" : "fewer";
  return `${methods[a]} against ${methods[b]}, ${plural(n, "image")}: fewer queries on ${wins}, more on ${losses}, ` +
    `the same on ${n - wins - losses}; on average ${queriesText(Math.abs(mean))} ${more}. ` +
    `Wilcoxon ${pText(wilcoxon)}, sign test ${pText(sign)}.`;
}

function tint(wins, losses, p) {
  if (wins === losses || p >= 0.05) return "even";
  const strength = p < 0.001 ? 3 : p < 0.01 ? 2 : 1;
  return `${wins > losses ? "better" : "worse"} s${strength}`;
}

function drawPairs(box, { table, group }) {
  const entries = group.entries;
  const methods = entries.map((entry) => DATA.methods[entry.m]);
  const known = new Map();
  for (const [i, j, n, wins, losses, mean, sign, wilcoxon] of group.pairs) {
    known.set(`${i},${j}`, [i, j, n, wins, losses, mean, sign, wilcoxon]);
    known.set(`${j},${i}`, [j, i, n, losses, wins, mean === null ? null : -mean, sign, wilcoxon]);
  }
  const wide = entries.length > WIDE;
  const readout = make("p", { class: "readout", role: "status" }, "Point at a cell for its sentence.");
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
      const [, , n, wins, losses, , , p] = pair;
      return make("td", { class: tint(wins, losses, p), "data-pair": `${i},${j}`, tabindex: wide ? null : "0",
        title: wide ? pairWords(methods, pair) : null },
        wide ? String(Math.round((100 * (wins + (n - wins - losses) / 2)) / n)) : make("span", {}, `${wins}–${losses}`),
        wide ? null : make("small", {}, pText(p).replace("p = ", "p ").replace("p < ", "p <")));
    })));
  const head = make("tr", {}, make("th", { scope: "col" }, "fewer – more queries than"),
    ...entries.map((entry, j) => make("th", { scope: "col", title: methods[j] },
      wide ? String(j + 1) : make("span", {}, make("span", { class: "number" }, String(j + 1)), " ", ...named(methods[j])))));
  const matrix = make("table", { class: wide ? "pairs wide" : "pairs", onpointerover: say, onfocusin: say },
    make("thead", {}, head), make("tbody", {}, ...rows));
  box.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region",
    "aria-label": `Method against method, ${group.name}` }, matrix), readout,
  wide ? make("p", { class: "explain" }, "Numbers are the share of images, in per cent, on which the row needed fewer queries than the column; ties count half.") : "");
}

for (const slot of slots("pairs")) {
  const several = GROUPS.filter(({ group }) => group.entries.length > 1);
  const box = make("div");
  if (several.length > 1) {
    const [label] = select("Target", several.map((one, i) => [i, groupTitle(one)]), (i) => drawPairs(box, several[i]));
    slot.append(make("div", { class: "controls" }, label));
  }
  slot.append(box);
  if (several.length) drawPairs(box, several[0]);
}
