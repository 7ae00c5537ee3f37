// Sorting and filtering of the one table.
const table = document.querySelector(".matrix");
const filters = document.querySelector(".filters");
const headers = table ? [...table.tHead.rows[0].cells] : [];
const CHOICES = ["machine", "workload", "timed", "stage", "verdict"];
const sorting = { column: -1, descending: false };

function label(header) {
  return header.dataset.label;
}

/** What a row is sorted by: its number, or its text in small letters. */
function key(body, column) {
  const cell = body.rows[0].cells[column];
  return headers[column].dataset.sort === "number" ? Number(cell.dataset.key) : cell.textContent.trim().toLowerCase();
}

function arrange() {
  const { column, descending } = sorting;
  const keyed = bodies.map((body) => [column < 0 ? 0 : key(body, column), body]);
  const sign = descending ? -1 : 1;
  keyed.sort(([one], [other]) => sign * (one < other ? -1 : Number(one > other))); // equal rows stay in order
  table.append(...keyed.map(([, body]) => body));
  headers.forEach((header, index) => {
    if (index === column) header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else header.removeAttribute("aria-sort");
  });
  filters.elements.sort.value = column < 0 ? "" : `${column} ${descending}`;
}

/** Numbers begin with the largest, words with the first; a third click restores the matrix's own order. */
function sortBy(column) {
  const first = headers[column].dataset.sort === "number" && !headers[column].matches(".ascending");
  if (sorting.column !== column) Object.assign(sorting, { column, descending: first });
  else if (sorting.descending === first) sorting.descending = !first;
  else sorting.column = -1;
  arrange();
  const way = sorting.descending ? "descending" : "ascending";
  say(sorting.column < 0 ? "In the matrix's own order." : `Sorted by ${label(headers[column])}, ${way}.`);
}

function fits(body, wanted, words) {
  const chosen = CHOICES.every((name) => !wanted.get(name) || body.dataset[name] === wanted.get(name));
  const current = !("older" in body.dataset) || wanted.has("older");
  return chosen && current && contains(body, words);
}

function contains(element, words) {
  const text = (element.tBodies ? element : element.rows ? element.rows[0] : element).textContent.toLowerCase();
  return words.every((word) => text.includes(word));
}

function filter() {
  const wanted = new FormData(filters);
  const words = wanted.get("text").toLowerCase().split(/\s+/).filter(Boolean);
  for (const body of bodies) body.hidden = !fits(body, wanted, words);
  for (const row of document.querySelectorAll(".gaps > tbody > tr")) {
    const chosen = ["machine", "workload"].every((name) => !wanted.get(name) || row.dataset[name] === wanted.get(name));
    row.hidden = !chosen || !contains(row, words);
  }
  const count = bodies.filter((body) => !body.hidden).length;
  filters.querySelector(".count").textContent = `${count} of ${bodies.length} ratios shown`;
  document.querySelector(".none").hidden = count > 0;
}

if (table) {
  filters.elements.sort.append(made("option", { value: "" }, "the matrix's order"));
  headers.forEach((header, column) => {
    const head = header.querySelector(".head");
    header.dataset.label = head.textContent.trim();
    const button = made("button", { type: "button", class: "sort" }, header.dataset.label);
    button.addEventListener("click", () => sortBy(column));
    head.replaceWith(button);
    for (const descending of [true, false]) {
      const way = descending ? "descending" : "ascending";
      filters.elements.sort.append(made("option", { value: `${column} ${descending}` }, `${label(header)}, ${way}`));
    }
  });
  filters.addEventListener("input", (event) => {
    if (event.target.name !== "sort") filter();
  });
  filters.elements.sort.addEventListener("change", (event) => {
    const [column, descending] = event.target.value.split(" ");
    Object.assign(sorting, { column: event.target.value ? Number(column) : -1, descending: descending === "true" });
    arrange();
  });
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => {
    sorting.column = -1;
    setTimeout(() => [arrange(), filter()]); // after the fields were emptied
  });
  filter();
}
