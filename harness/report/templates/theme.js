"use strict";

const root = document.documentElement;
root.classList.add("js");
for (const one of document.querySelectorAll("[hidden]:not(.none)")) one.hidden = false;

/** An element with attributes and children; text is never anything but text. */
function made(name, attributes = {}, ...children) {
  const space = SHAPES.has(name) ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const found = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}
const SHAPES = new Set(["svg", "g", "path", "circle", "text"]);

/** Tells those who listen instead of looking. */
function say(text) {
  document.getElementById("said").textContent = text;
}

const theme = document.getElementById("theme");
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : systemIsDark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
}

theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
systemIsDark.addEventListener("change", nameTheme);
nameTheme();
