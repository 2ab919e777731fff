// The legend of a table's methods: which are drawn, kept in one place for curves and traces alike.

const FEW = 8; // up to so many methods, all are drawn from the start
const HIGHLIGHTED = 6; // of more than that, the best so many
const legends = DATA.tables.map((table) => {
  const score = new Map(table.methods.map((m) => [m, [0, 0]]));
  for (const group of table.groups) {
    for (const entry of group.entries) {
      const area = areaUnder(entry.curve, table.budget);
      score.get(entry.m)[0] += area;
      score.get(entry.m)[1] += 1;
    }
  }
  const order = [...score].map(([m, [sum, n]]) => [sum / n, m]).sort((a, b) => b[0] - a[0]).map(([, m]) => m);
  const on = new Set(table.methods.length <= FEW ? order : order.slice(0, HIGHLIGHTED));
  return { on, order, watchers: [], strong: null };
});

// The mean height of a success curve on a log axis: what is fooled early counts.
function areaUnder(curve, budget) {
  let area = 0;
  curve.forEach(([q, rate], i) => {
    const next = i + 1 < curve.length ? curve[i + 1][0] : budget;
    area += rate * Math.log(Math.max(next, 1) / Math.max(q, 1));
  });
  return area / Math.log(Math.max(budget, 2));
}

function changed(t) {
  for (const watcher of legends[t].watchers) watcher();
}

for (const slot of slots("legend")) {
  const t = Number(slot.dataset.t);
  const table = DATA.tables[t];
  const legend = legends[t];
  const buttons = legend.order.map((m) => {
    const button = make("button", { type: "button", class: "method", "aria-pressed": String(legend.on.has(m)),
      onclick: () => {
        if (legend.on.has(m)) legend.on.delete(m);
        else legend.on.add(m);
        changed(t);
      } }, swatch(m), make("span", {}, ...named(DATA.methods[m])));
    const lift = (method) => { legend.strong = method; changed(t); };
    button.addEventListener("pointerenter", () => legend.on.has(m) && lift(m));
    button.addEventListener("pointerleave", () => legend.strong !== null && lift(null));
    legend.watchers.push(() => button.setAttribute("aria-pressed", String(legend.on.has(m))));
    return button;
  });
  const set = (methods) => () => { legend.on = new Set(methods); changed(t); };
  const tools = table.methods.length < 3 ? [] : [
    make("button", { type: "button", class: "tool", onclick: set(legend.order) }, "All"),
    make("button", { type: "button", class: "tool", onclick: set([]) }, "None"),
    table.methods.length > FEW
      ? make("button", { type: "button", class: "tool", onclick: set(legend.order.slice(0, HIGHLIGHTED)) }, "Best six")
      : null,
  ];
  slot.append(make("div", { class: "legend", role: "group", "aria-label": "Methods drawn" }, ...buttons, ...tools));
}
