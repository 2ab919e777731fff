// Reading a chart: a line that follows the pointer, a finger or the arrow keys, and the values there beside it.

const NARROW = 480; // pixels

// `at` turns a share of the axis into queries, `step` goes on from them, `values` tells [{ m, y, text, more }] there.
function readable(box, chart, { width, when, at, step, values }) {
  const pointer = draw("g", { class: "pointer", visibility: "hidden" });
  chart.svg.append(pointer);
  chart.svg.classList.add("chart");
  chart.svg.setAttribute("tabindex", "0");
  let tip = box.querySelector(".tip"), heard = box.querySelector(".heard"), now = null;
  if (!tip) {
    tip = make("div", { class: "tip", hidden: true });
    heard = make("p", { class: "heard", role: "status" });
    box.append(tip, heard);
  }
  tip.hidden = true;

  const show = (q) => {
    now = q;
    const x = chart.toX(q), found = values(q);
    pointer.replaceChildren(draw("line", { x1: x, x2: x, y1: chart.inside.top, y2: chart.inside.bottom }),
      ...found.map(({ m, y }) => draw("circle", { cx: x, cy: chart.toY(y), r: 3.5, style: `fill:${colourOf(m)}` })));
    pointer.setAttribute("visibility", "visible");
    tip.replaceChildren(make("p", {}, `${when} ${plural(q, "query")}`), ...found.slice(0, 12).map(({ m, text, more }) =>
      make("p", {}, swatch(m), make("b", {}, text), make("span", {}, ...named(DATA.methods[m])),
        more ? make("small", {}, more) : null)),
    found.length > 12 ? make("p", {}, `and ${found.length - 12} more`) : "");
    tip.hidden = false;
    const { left: from, bottom } = box.getBoundingClientRect();
    const most = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const under = width < NARROW && bottom + tip.offsetHeight < innerHeight; // else there is more room beside the line
    const wanted = under ? 0 : x > width / 2 ? x - 14 - tip.offsetWidth : x + 14;
    tip.style.left = `${Math.max(8 - from, Math.min(wanted, most - from))}px`;
    tip.style.top = under ? "100%" : "8px";
  };
  const leave = () => { pointer.setAttribute("visibility", "hidden"); tip.hidden = true; };
  const follow = (event) => {
    const share = (event.clientX - chart.svg.getBoundingClientRect().left - chart.inside.left) /
      (chart.inside.right - chart.inside.left);
    if (share < -0.02 || share > 1.02) leave();
    else show(at(Math.min(1, Math.max(0, share))));
  };
  chart.svg.addEventListener("pointerdown", follow);
  chart.svg.addEventListener("pointermove", follow);
  // A finger that is lifted leaves too: its values stay until something else is touched.
  chart.svg.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") leave(); });
  chart.svg.addEventListener("blur", leave);
  chart.svg.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
    show(step(now ?? at(0.5), event.key === "ArrowRight"));
    heard.textContent = [...tip.children].map((line) => line.textContent).join("; ");
  });
  box.querySelector("svg.chart")?.remove();
  box.prepend(chart.svg);
}
