// The gallery: rows from the numbers in this file, narrowed, sorted, held side by side and taken along.
const { columns, rows } = JSON.parse(document.getElementById("data").textContent);
const all = rows.map((values) => Object.fromEntries(columns.map((name, place) => [name, values[place]])));
const filters = document.querySelector(".filters");
const table = document.querySelector(".gallery");
const CHOICES = ["machine", "workload", "timed", "stage", "verdict"];
const SAME = ["optimization", "workload", "size", "batch", "against", "timed"]; // alike in rows of one question
const MARGIN = 1.01; // by which a quotient must leave 1 behind
const FIRST = 200; // rows that are drawn at once
let everything = false;

function unique(name) {
  return [...new Set(all.map((row) => row[name]))].sort();
}

function number(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function words([ratio, low, high]) {
  return `${number(ratio)}x [${number(low)}, ${high === null ? "∞" : number(high)}]`;
}

function memory(row) {
  return row.memory === null ? "-" : made("span", { title: row.memory_kind }, `${(row.memory / 2 ** 20).toFixed(0)} MiB`);
}

/** An interval on a logarithmic axis from a quarter to sixteen times. */
function drawn([ratio, low, high], verdict) {
  const place = (value) => 45 + 20 * Math.max(-2, Math.min(4, Math.log2(value ?? Infinity)));
  const line = `M${place(low)} 8H${place(high)}`;
  const svg = made("svg", { viewBox: "0 0 130 16", class: `interval v-${verdict.replace(" ", "_")}`, "aria-hidden": "true" });
  svg.append(made("path", { d: `M${place(1)} 1V15`, class: "one" }), made("path", { d: line, class: "span" }));
  svg.append(made("circle", { cx: place(ratio), cy: 8, r: 3.5 }));
  return svg;
}

function verdict(row) {
  return made("span", { class: `verdict v-${row.verdict.replace(" ", "_")}` }, row.verdict);
}

function link(row) {
  return made("a", { href: `#${row.key}`, title: "A link to this row" }, row.optimization);
}

const ONE = {
  optimization: link,
  machine: (row) => row.machine,
  workload: (row) => `${row.workload} ${row.size}, ${row.batch}`,
  against: (row) => row.against,
  "timed on": (row) => row.timed,
  stage: (row) => row.stage,
  "speedup, 95 %": (row) => [row.part ? made("abbr", { title: `its part alone: ${words(row.part)}` }, "~") : "", words(row.ratio), drawn(row.ratio, row.verdict)],
  verdict,
  quality: (row) => row.quality || "-",
  memory,
  run: (row) => made("a", { href: row.run, title: row.notes || "the run's folder" }, row.day),
};

/** How one machine's ratio stands to another's: their quotient, with both intervals' widths added in squares. */
function quotient(one, other) {
  const ratio = other[0] / one[0];
  const width = ([middle, low, high]) => Math.log(Math.max((high ?? Infinity) / middle, middle / low));
  const half = Math.hypot(width(one), width(other));
  return [ratio, ratio / Math.exp(half), Number.isFinite(half) ? ratio * Math.exp(half) : null];
}

/** Nothing is said of a machine that was too disturbed for a verdict. */
function apart(one, other) {
  if (one.verdict === "disturbed" || other.verdict === "disturbed") return "undecided";
  const [, low, high] = quotient(one.ratio, other.ratio);
  return low > MARGIN ? "more there" : high !== null && high < 1 / MARGIN ? "less there" : "no difference shown";
}

function pairColumns(machine, beside) {
  return {
    optimization: ({ one }) => link(one),
    workload: ({ one }) => `${one.workload} ${one.size}, ${one.batch}`,
    against: ({ one }) => one.against,
    "timed on": ({ one }) => one.timed,
    [machine]: ({ one }) => [words(one.ratio), drawn(one.ratio, one.verdict)],
    [beside]: ({ other }) => [words(other.ratio), drawn(other.ratio, other.verdict)],
    "second over first": ({ one, other }) => words(quotient(one.ratio, other.ratio)),
    difference: ({ one, other }) => apart(one, other),
  };
}

function fits(row, wanted, texts) {
  const chosen = CHOICES.every((name) => !wanted.get(name) || row[name] === wanted.get(name));
  if (row.aside && !wanted.has("aside")) return false;
  const text = [row.optimization, row.machine, row.workload, row.against, row.timed, row.notes].join(" ").toLowerCase();
  return chosen && texts.every((word) => text.includes(word));
}

/** What is asked for: the columns, and the rows or pairs of rows in order. */
function asked() {
  const wanted = new FormData(filters);
  const texts = wanted.get("text").toLowerCase().split(/\s+/).filter(Boolean);
  const [machine, beside, sort] = ["machine", "beside", "sort"].map((name) => wanted.get(name));
  let found = all.filter((row) => fits(row, wanted, texts));
  if (sort) {
    const key = (row) => (sort === "ratio" ? -row.ratio[0] : sort === "memory" ? -(row.memory ?? 0) : row[sort]);
    found = found.toSorted((one, other) => (key(one) < key(other) ? -1 : Number(key(one) > key(other))));
  }
  if (!machine || !beside || machine === beside) return { shown: ONE, found };
  const others = new Map(all.filter((row) => row.machine === beside && (!row.aside || wanted.has("aside"))).reverse().map((row) => [row.question, row]));
  const pairs = found.map((one) => ({ one, other: others.get(one.question) })).filter((pair) => pair.other);
  return { shown: pairColumns(machine, beside), found: pairs };
}

function show() {
  const { shown, found } = asked();
  table.tHead.replaceChildren(made("tr", {}, ...Object.keys(shown).map((name) => made("th", { scope: "col" }, name))));
  const some = everything ? found : found.slice(0, FIRST);
  table.tBodies[0].replaceChildren(
    ...some.map((row) => {
      const cells = Object.values(shown).map((cell) => made("td", {}, ...[cell(row)].flat()));
      return made("tr", { id: (row.one ?? row).key }, ...cells);
    }),
  );
  filters.querySelector(".count").textContent = `${found.length} of ${all.length} ratios`;
  document.getElementById("more").hidden = some.length === found.length;
  document.getElementById("more").textContent = `Show all ${found.length}`;
  document.querySelector(".none").hidden = found.length > 0;
}

/** One line of CSV by RFC 4180; text that a spreadsheet would take for a formula begins with an apostrophe. */
function csv(values) {
  const safe = values.map((value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  });
  return `${safe.join(",")}\r\n`;
}

const PLAIN = ["optimization", "machine", "workload", "size", "batch", "against", "timed", "stage", "verdict", "quality", "memory", "memory_kind"];

function taken() {
  const { found } = asked();
  const ends = (name) => [`${name} ratio`, `${name} low`, `${name} high`];
  if (found[0]?.one) {
    const lines = found.map(({ one, other }) => [...SAME.map((name) => one[name]), one.machine, ...one.ratio, other.machine, ...other.ratio]);
    return [[...SAME, "first", ...ends("first"), "second", ...ends("second")], ...lines];
  }
  const lines = found.map((row) => [...PLAIN.map((name) => row[name]), ...row.ratio, ...(row.part ?? ["", "", ""]), row.run, row.environment]);
  return [[...PLAIN, "ratio", "low", "high", ...ends("part"), "run", "environment"], ...lines];
}

document.getElementById("csv").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([taken().map(csv).join("")], { type: "text/csv" }));
  made("a", { href: address, download: "speedmatrix.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  say("The table is saved as CSV.");
});

/** A link to a row shows it, whatever the filters hide. */
function follow() {
  const key = location.hash.slice(1);
  if (!all.some((row) => row.key === key)) return;
  if (!document.getElementById(key)) {
    for (const one of [...CHOICES, "beside", "text"]) filters.elements[one].value = "";
    filters.elements.aside.checked = true;
    everything = true;
    show();
  }
  for (const one of table.querySelectorAll(".found")) one.classList.remove("found");
  document.getElementById(key).classList.add("found");
  document.getElementById(key).scrollIntoView({ block: "center" });
}

for (const name of [...CHOICES, "beside"]) {
  const values = unique(name === "beside" ? "machine" : name);
  filters.elements[name].append(...values.map((value) => made("option", { value }, value)));
}
filters.addEventListener("input", () => {
  everything = false;
  show();
});
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", () => setTimeout(show)); // after the fields were emptied
document.getElementById("more").addEventListener("click", () => {
  everything = true;
  show();
});
addEventListener("hashchange", follow);
show();
follow();
