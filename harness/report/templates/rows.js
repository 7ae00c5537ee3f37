// Rows that open. Without this script each has a plain disclosure below it.
const bodies = [...document.querySelectorAll(".matrix > tbody")];

function open(body, wanted) {
  body.classList.toggle("open", wanted);
  body.querySelector(".more details").open = wanted;
  body.querySelector(".opens").setAttribute("aria-expanded", wanted);
}

for (const body of bodies) {
  const text = body.querySelector(".opens");
  const button = made("button", { type: "button", class: "opens", "aria-expanded": "false" }, ...text.childNodes);
  button.setAttribute("aria-controls", body.querySelector(".more details").id);
  text.replaceWith(button);
  body.querySelector(".main").addEventListener("click", (event) => {
    const chosen = event.target.closest("a") || !getSelection().isCollapsed;
    if (!chosen) open(body, !body.classList.contains("open"));
  });
  body.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !body.classList.contains("open")) return;
    open(body, false);
    button.focus();
  });
}

/** A link to a row or a run opens it. */
function follow() {
  const target = document.getElementById(location.hash.slice(1));
  if (target?.matches("details")) target.open = true;
  if (!bodies.includes(target)) return;
  open(target, true);
  target.hidden = false;
  target.scrollIntoView();
}
addEventListener("hashchange", follow);
addEventListener("load", follow);

// On paper nothing can be opened, so everything is.
let openedForPaper = [];
addEventListener("beforeprint", () => {
  openedForPaper = [...document.querySelectorAll("details:not([open], .numbers)")];
  for (const one of openedForPaper) one.open = true;
  for (const body of bodies.filter((one) => !one.hidden)) draw(body.querySelector(".windows"));
});
addEventListener("afterprint", () => {
  for (const one of openedForPaper) one.open = false;
});
