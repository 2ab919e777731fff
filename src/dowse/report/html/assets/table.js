// The tables of results: sorted by a click on a heading, filtered by text and by target.

function sortBy(table, heading, place) {
  const descending = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const value = (row) => {
    const cell = row.children[place];
    if (place === 0) return cell.dataset.v;
    if (cell.dataset.v === "") return null;
    return cell.dataset.v === "inf" ? Infinity : Number(cell.dataset.v);
  };
  const rows = [...table.tBodies[0].rows].map((row, i) => [value(row), i, row]);
  rows.sort(([a, i], [b, j]) => {
    if (a === null || b === null) return (a === null) - (b === null) || i - j; // nothing stands last either way
    const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a === b ? 0 : a - b;
    return (descending ? -order : order) || i - j;
  });
  table.tBodies[0].append(...rows.map(([, , row]) => row));
}

const resultTables = [...document.querySelectorAll("table.results")];
for (const table of resultTables) {
  const [upper, lower] = table.tHead.rows;
  [upper.cells[0], ...lower.cells].forEach((heading, place) => {
    heading.querySelector("button").addEventListener("click", () => sortBy(table, heading, place));
  });
}

function filterResults() {
  const words = document.getElementById("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const target = document.getElementById("target")?.value ?? "";
  let shown = 0, all = 0;
  for (const table of resultTables) {
    for (const row of table.tBodies[0].rows) {
      const name = row.cells[0].dataset.v.toLowerCase();
      row.hidden = !words.every((word) => name.includes(word));
      all += 1;
      shown += !row.hidden;
    }
    const groups = DATA.tables[table.dataset.t].groups;
    for (const cell of table.querySelectorAll("[data-g]")) {
      cell.hidden = target !== "" && groups[cell.dataset.g].name !== target;
    }
    table.classList.toggle("empty", target !== "" && !groups.some((group) => group.name === target));
  }
  document.getElementById("shown").textContent = words.length ? `${shown} of ${all} rows` : "";
}
document.getElementById("filter").addEventListener("input", filterResults);
document.getElementById("target")?.addEventListener("change", filterResults);
