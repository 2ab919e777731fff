// The enlarged image: a dialog that the arrow keys move on, Escape closes, and that gives the focus back.

const dialog = document.getElementById("dialog");
let openAt = 0, opener = null;

function fillDialog() {
  const { strip, card } = cards[openAt];
  const { name } = methodOf(strip, card);
  document.getElementById("enlarged").textContent = `${strip.label} → ${card.to}`;
  const figure = (image, alt, title, text) =>
    make("figure", {}, picture(image, alt), make("figcaption", {}, make("b", {}, title), make("span", {}, text)));
  const facts = [["Method", name], ["Queries", card.q.toLocaleString("en-US")], ["Image", strip.name],
    ["Target", groupOf.get(strip.g).group.name], ["Distance", distanceText(card)]];
  if (strip.aim) facts.push(["Wanted", strip.aim]);
  dialog.querySelector(".large").replaceChildren(
    make("div", { class: "three" },
      figure(strip.image, `${strip.label}, unchanged`, "Original", `${strip.label}${percentWhole(strip.sure)}`),
      figure(card.d, `The perturbation, magnified ${card.x} times`, "Perturbation", `magnified ${card.x} times around grey`),
      figure(card.a, `As the target saw it`, "Adversarial", `${card.to}${percentWhole(card.sure)}`)),
    make("dl", { class: "facts" }, ...facts.map(([word, value]) =>
      make("div", {}, make("dt", {}, word), make("dd", {}, ...(word === "Method" ? named(value) : [value]))))),
    make("p", { class: "note" }, `${openAt + 1} of ${cards.length}. Arrow keys go on, Escape closes.`));
}

function enlarge(place, from) {
  openAt = place;
  opener = from;
  fillDialog();
  dialog.showModal();
  dialog.querySelector(".close").focus();
}

function step(by) {
  openAt = (openAt + by + cards.length) % cards.length;
  fillDialog();
}

dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.querySelector(".back").addEventListener("click", () => step(-1));
dialog.querySelector(".next").addEventListener("click", () => step(1));
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("keydown", (event) => {
  if (event.key === "ArrowRight") step(1);
  if (event.key === "ArrowLeft") step(-1);
});
dialog.addEventListener("close", () => {
  const last = document.querySelector(`[data-card="${openAt}"]`) ?? opener;
  last?.focus();
});
