// The windows behind a ratio, drawn from the numbers in this file, and as a table for whoever prefers one.
const BOX = { width: 340, height: 170, left: 46, right: 8, top: 20, bottom: 32 };
let numbers = null;

/** The lives behind a line, each with the windows of both arms: when one began, how long it took, samples a second. */
function livesOf(line) {
  numbers ??= JSON.parse(document.getElementById("windows").textContent);
  const [block, treatment] = numbers.lines[line];
  const found = new Map();
  for (const [arm, lives] of [["treatment", treatment], ["reference", numbers.references[block]]]) {
    for (const [restart, life, began, took, samples] of lives) {
      const name = `restart ${restart + 1}` + (life ? `, life ${life + 1}` : "");
      if (!found.has(name)) found.set(name, { name, treatment: [], reference: [] });
      const rate = (index) => (Array.isArray(samples) ? samples[index] : samples) / took[index];
      const whole = began.map((start, index) => ({ began: start, took: took[index], rate: rate(index) }));
      found.get(name)[arm] = whole.filter((one) => one.began !== null && Number.isFinite(one.rate));
    }
  }
  return [...found.values()].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function shown(value) {
  return Number(value.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/** Round values between two ends, about so many. */
function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) found.push(index * step);
  return found;
}

function panel(life, low, high) {
  const end = Math.max(1, ...[...life.treatment, ...life.reference].map((one) => one.began + one.took));
  const x = (time) => BOX.left + (time / end) * (BOX.width - BOX.left - BOX.right);
  const y = (rate) => BOX.height - BOX.bottom - ((rate - low) / (high - low)) * (BOX.height - BOX.top - BOX.bottom);
  const svg = made("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": inWords(life) });
  svg.append(made("text", { x: BOX.left, y: 12, class: "panel" }, life.name));
  for (const rate of ticks(low, high, 4)) {
    svg.append(made("path", { class: "rule", d: `M${BOX.left} ${y(rate)}H${BOX.width - BOX.right}` }));
    svg.append(made("text", { x: BOX.left - 6, y: y(rate) + 4, "text-anchor": "end" }, shown(rate)));
  }
  for (const time of ticks(0, end, 4)) {
    svg.append(made("text", { x: x(time), y: BOX.height - 14, "text-anchor": "middle" }, `${shown(time)} s`));
  }
  for (const arm of ["reference", "treatment"]) svg.append(trace(arm, life[arm], x, y));
  return svg;
}

function trace(arm, windows, x, y) {
  const group = made("g", { class: `arm ${arm}` });
  const middles = windows.map((one) => [x(one.began + one.took / 2).toFixed(1), y(one.rate).toFixed(1)]);
  if (middles.length) group.append(made("path", { class: "thread", d: `M${middles.map((one) => one.join(" ")).join("L")}` }));
  windows.forEach((one, index) => {
    group.append(made("path", { class: "window", d: `M${x(one.began).toFixed(1)} ${middles[index][1]}H${x(one.began + one.took).toFixed(1)}` }));
    group.append(made("circle", { cx: middles[index][0], cy: middles[index][1], r: 3 }));
  });
  return group;
}

function inWords(life) {
  const arms = ["treatment", "reference"].map((arm) => {
    const rates = life[arm].map((one) => one.rate);
    const range = rates.length ? `, ${shown(Math.min(...rates))} to ${shown(Math.max(...rates))} samples a second` : "";
    return `${rates.length} windows of the ${arm}${range}`;
  });
  return `${life.name}: ${arms.join("; ")}.`;
}

function draw(figure) {
  if (figure.classList.contains("drawn")) return;
  figure.classList.add("drawn");
  const lives = livesOf(figure.dataset.line);
  const rates = lives.flatMap((life) => [...life.treatment, ...life.reference]).map((one) => one.rate);
  const [low, high] = [Math.min(...rates), Math.max(...rates)];
  const margin = 0.08 * (high - low) || 0.05 * high;
  figure.append(made("div", { class: "panels" }, ...lives.map((life) => panel(life, Math.max(0, low - margin), high + margin))));
  const details = made("details", { class: "numbers" }, made("summary", {}, "These windows as a table"));
  details.addEventListener("toggle", () => details.children.length < 2 && details.append(asTable(lives)), { once: true });
  figure.append(details);
}

function asTable(lives) {
  const names = ["restart", "arm", "began, s", "took, s", "samples a second"];
  const head = made("tr", {}, ...names.map((name) => made("th", { scope: "col" }, name)));
  const rows = lives.flatMap((life) =>
    ["treatment", "reference"]
      .flatMap((arm) => life[arm].map((one) => [one.began, life.name, arm, one.took, one.rate]))
      .sort((one, other) => one[0] - other[0])
      .map(([began, name, arm, took, rate]) =>
        made("tr", {}, ...[name, arm, shown(began), shown(took), shown(rate)].map((text) => made("td", {}, text))),
      ),
  );
  const whole = made("table", {}, made("thead", {}, head), made("tbody", {}, ...rows));
  return made("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Windows as a table" }, whole);
}

for (const body of bodies) {
  body.querySelector(".more details").addEventListener("toggle", (event) => {
    if (event.target.open) draw(body.querySelector(".windows"));
  });
}
