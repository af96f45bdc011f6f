// Functions that create elements. Text from outside becomes text nodes and attributes that no browser runs; neither this
// file nor the following files parse text as HTML.

const MAX_TEXT = 1000; // longer texts are cut by page.py
const SHORT = 26; // characters of a place in a row

const byId = (id) => document.getElementById(id);

const make = (name, attributes, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};

// Isolated, so that right-to-left text does not reorder the text around it.
const outside = (text) => make("bdi", { dir: "ltr" }, text);

const value = (text) => {
  if (text === null) return make("span", { class: "dim" }, "not set");
  return text === "" ? make("span", { class: "dim" }, "empty") : outside(text);
};

const clusterName = (name) => (name === "" ? make("span", { class: "dim" }, "the cluster") : outside(name));

const number = new Intl.NumberFormat("en-US").format;

const count = (many, noun) => `${number(many)} ${noun}${many === 1 ? "" : "s"}`;

const moment = (time) => (time === null ? "never" : `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`);

const span = (seconds) => {
  if (seconds < 3600) return `${Math.max(0, Math.floor(seconds / 60))} min`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${number(Math.floor(seconds / 86400))} days`;
};

const table = (caption, heads, rows) => make(
  "table",
  { class: "plain" },
  make("caption", { class: "hidden" }, caption),
  make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
  make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))))),
);

// A table whose rows are cards on a narrow screen. Roles are explicit, because cards are no table to a browser.
const cards = (caption, heads, rows) => make(
  "table",
  { class: "plain stacked", role: "table" },
  make("caption", { class: "hidden" }, caption),
  make("thead", { role: "rowgroup" }, make("tr", { role: "row" },
    ...heads.map((head) => make("th", { scope: "col", role: "columnheader" }, head)))),
  make("tbody", { role: "rowgroup" }, ...rows.map((cells) => make("tr", { role: "row" },
    ...cells.map((cell, at) => make("td", { role: "cell", "data-head": heads[at] }, cell))))),
);

// Only web addresses become links: any other scheme could run code.
const webLink = (address, text) => {
  if (!/^https?:\/\/[^\s]+$/i.test(address ?? "") || address.length >= MAX_TEXT) return outside(text);
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, outside(text));
};

const place = (one) => (one.line === null ? one.file : `${one.file}:${one.line}`);

// The last two parts of a place, or the last one: the end of a path says more than its beginning.
const shortPlace = (one) => {
  const [last, folder] = place(one).split("/").reverse();
  return folder && folder.length + last.length < SHORT ? `${folder}/${last}` : last;
};

// The file and line of a manifest, as a link if there is one.
const source = (one, shown = place) => (
  one.file === null ? make("span", { class: "dim" }, "no manifest") : webLink(one.link, shown(one))
);

const badge = (severity) => make("span", { class: `badge badge-${severity}` }, severity);

// An element of SVG. Each page has an svg element, whose name says the namespace.
const shape = (name, attributes, ...children) => {
  const made = document.createElementNS(document.querySelector("svg").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// A text to copy, with a button.
const copyable = (text) => {
  const shown = make("code", { class: "command" }, outside(text));
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(shown);
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected"; // a browser may deny the clipboard to local files
    }
  });
  return [shown, " ", button];
};
