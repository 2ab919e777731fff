// The gallery: a strip an image, on it the original and what each method made of it.

const STRIPS = 6; // shown at first, and more with each click
const percentWhole = (share) => (share === null || share === undefined ? "" : ` ${Math.round(100 * share)}%`);
const groupOf = new Map(GROUPS.map((one) => [one.group.id, one]));
const methodOf = (strip, card) => {
  const { table, group } = groupOf.get(strip.g);
  const m = group.entries[card.m].m;
  return { m, name: DATA.methods[m], norm: table.norm };
};
const distanceText = (card) =>
  [card.l2 === null ? null : `‖δ‖₂ ${card.l2.toFixed(2)}`, card.linf === null ? null : `max |δ| ${card.linf.toFixed(3)}`]
    .filter(Boolean).join(" · ");

function picture(name, alt) {
  const image = make("img", { src: DATA.pictures[name], alt, loading: "lazy", decoding: "async" });
  const small = () => image.classList.toggle("pixels", image.naturalWidth <= 96);
  if (image.complete && image.naturalWidth) small();
  else image.addEventListener("load", small);
  return image;
}

let cards = []; // all that can be enlarged now, in order

function cardOf(strip, card) {
  const { m, name } = methodOf(strip, card);
  const head = make("span", { class: "who" }, dot(m), make("span", {}, ...named(name)));
  if (!card.a) {
    return make("div", { class: "card none" }, head, make("span", {}, card.ok ? "fooled; no image kept" : "not fooled"),
      make("span", { class: "note" }, plural(card.q, "query")));
  }
  const place = cards.push({ strip, card }) - 1;
  return make("button", { type: "button", class: "card", "data-card": place, onclick: (event) => enlarge(place, event.currentTarget),
    "aria-label": `Enlarge: ${strip.label} taken for ${card.to} after ${plural(card.q, "query")}, ${name}` },
    make("span", { class: "tiles" }, picture(card.d, `What ${name} added, magnified ${card.x} times`),
      picture(card.a, `${strip.label} as the target saw it, taken for ${card.to}`)),
    head,
    make("span", { class: "verdict" }, `→ ${card.to}`, make("i", {}, percentWhole(card.sure))),
    make("span", { class: "note" }, `${plural(card.q, "query")} · × ${card.x}`));
}

function stripOf(strip, method) {
  const wanted = strip.cards.filter((card) => method === "" || String(methodOf(strip, card).m) === method);
  return make("article", { class: "strip" },
    make("figure", { class: "original" }, picture(strip.image, `${strip.label}, unchanged`),
      make("figcaption", {}, make("b", {}, strip.label), make("i", {}, percentWhole(strip.sure)),
        strip.aim ? make("span", { class: "note" }, `wanted: ${strip.aim}`) : null,
        make("span", { class: "note" }, strip.name))),
    make("div", { class: "cards" }, ...wanted.map((card) => cardOf(strip, card))));
}

for (const slot of slots("gallery")) {
  const places = GROUPS.filter(({ group }) => DATA.strips.some((strip) => strip.g === group.id));
  const box = make("div", { class: "strips" });
  const more = make("button", { type: "button", class: "more", onclick: () => { limit += STRIPS; show(); } });
  let place = places[0], method = "", limit = STRIPS;
  const show = () => {
    const strips = DATA.strips.filter((strip) => strip.g === place.group.id &&
      (method === "" || strip.cards.some((card) => card.a && String(methodOf(strip, card).m) === method)));
    cards = [];
    box.replaceChildren(...strips.slice(0, limit).map((strip) => stripOf(strip, method)));
    more.hidden = strips.length <= limit;
    more.textContent = `Show ${Math.min(STRIPS, strips.length - limit)} more of ${strips.length} images`;
  };
  const methodBox = make("span");
  const chooseMethod = (value) => { method = value; limit = STRIPS; show(); };
  const chooseTarget = (one) => {
    place = one;
    methodBox.replaceChildren(methodChoice(place, chooseMethod));
    chooseMethod("");
  };
  slot.append(make("div", { class: "controls" }, targetChoice(places, chooseTarget), methodBox), box, more);
  if (place) chooseTarget(place);
}
