// Every image: the rows of all runs, a page at a time, filtered by words, method and how it ended.

const PAGE = 25;
const OUTCOMES = { adversarial: "fooled", budget: "budget spent", exhausted: "gave up", already_wrong: "already wrong",
  nonfinite: "NaN or infinite", target_failed: "target failed" };

for (const slot of slots("images")) {
  let place = GROUPS[0], method = "", outcome = "", words = [], page = 0;
  const body = make("tbody"), status = make("span", { class: "note", role: "status" });
  const back = make("button", { type: "button", class: "tool", onclick: () => { page -= 1; show(); } }, "← Before");
  const next = make("button", { type: "button", class: "tool", onclick: () => { page += 1; show(); } }, "Next →");

  const rows = () => {
    const { group } = place;
    const found = [];
    for (const entry of group.entries) {
      if (method !== "" && String(entry.m) !== method) continue;
      const [images, queries, ends, predicted, distances] = entry.rows;
      images.forEach((image, i) => {
        const [name, label] = group.images[image];
        const end = DATA.ends[ends[i]][0];
        if (outcome !== "" && end !== outcome) return;
        const to = predicted[i] === null ? "–" : group.classes[predicted[i]];
        const text = `${name} ${label} ${to} ${DATA.methods[entry.m]}`.toLowerCase();
        if (words.every((word) => text.includes(word))) found.push([image, name, label, entry.m, end, queries[i], to, distances[i], ends[i]]);
      });
    }
    return found.sort((a, b) => a[0] - b[0] || a[3] - b[3]);
  };

  const show = () => {
    const found = rows(), pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.max(0, Math.min(page, pages - 1));
    body.replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(([, name, label, m, end, q, to, distance, e]) => {
      return make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "text" }, label),
        make("td", { class: "text" }, dot(m), ...named(DATA.methods[m])),
        make("td", { class: `text end-${end}`, title: DATA.ends[e][1] }, OUTCOMES[end] ?? end),
        make("td", {}, q.toLocaleString("en-US")), make("td", { class: "text" }, to),
        make("td", {}, distance === null ? "–" : distance.toFixed(3)));
    }));
    status.textContent = found.length ? `${(page * PAGE + 1).toLocaleString("en-US")}–${Math.min(found.length, (page + 1) * PAGE).toLocaleString("en-US")} of ${found.length.toLocaleString("en-US")}` : "Nothing fits";
    back.disabled = page === 0;
    next.disabled = page >= pages - 1;
  };

  const again = () => { page = 0; show(); };
  const search = make("input", { type: "search", placeholder: "Image or class", oninput: () => {
    words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    again();
  } });
  const methodBox = make("span");
  const chooseMethod = (value) => { method = value; again(); };
  const chooseTarget = (one) => {
    place = one;
    methodBox.replaceChildren(methodChoice(place, chooseMethod));
    chooseMethod("");
  };
  const controls = make("div", { class: "controls" }, make("label", {}, "Find ", search), targetChoice(GROUPS, chooseTarget),
    methodBox, select("Outcome", [["", "All"], ...DATA.ends.map(([end]) => [end, OUTCOMES[end] ?? end])],
      (value) => { outcome = value; again(); }));
  const heads = [["Image", 1], ["Class", 1], ["Method", 1], ["Outcome", 1], ["Queries", 0], ["Taken for", 1], ["Distance", 0]];
  slot.append(controls, make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Every image" },
    make("table", { class: "images" }, make("thead", {}, make("tr", {}, ...heads.map(([word, text]) =>
      make("th", { scope: "col", class: text ? "text" : null }, word)))), body)),
  make("div", { class: "controls pager" }, back, status, next));
  chooseTarget(place);
}
