// The table of rows: only the visible ones are in the document, so that 20,000 rows stay fast. HEADS, CELLS and TITLES
// say what it shows.

const SPARE = 3;
const PRINTED = 200;
const FEW = 7; // fewer rows are all in the document, each as high as it needs

const grid = (() => {
  const above = make("tbody", { role: "presentation", class: "spacer" });
  const below = make("tbody", { role: "presentation", class: "spacer" });
  const body = make("tbody", { role: "rowgroup" });
  // Roles are explicit, because cards are no table to a browser.
  const heads = HEADS.map(([name, words]) => make(
    "th",
    { scope: "col", role: "columnheader", class: `c-${name}`, "data-head": words },
    name in ORDERS ? make("button", { type: "button", "data-sort": name }, words) : words,
  ));
  const whole = make("table", { role: "grid", tabindex: "0", "aria-label": SUBJECT.title, "aria-describedby": "keys" },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row", "aria-rowindex": "1" }, ...heads)), above, body, below);
  for (const spacer of [above, below]) {
    spacer.append(make("tr", { role: "presentation" }, make("td", { role: "presentation" })));
  }
  return { above, below, body, heads, whole, scroller: byId("table"), rows: [], active: 0, height: 99, measured: false, all: false, few: false };
})();

const line = (at) => {
  const row = grid.rows[at];
  return make(
    "tr",
    { id: `row-${at}`, role: "row", "aria-rowindex": at + 2, "data-at": at, "aria-selected": String(at === grid.active) },
    ...HEADS.map(([name, words]) => make(
      "td",
      { class: `c-${name}${LABELLED.includes(name) ? " labelled" : ""}`, role: "gridcell", title: TITLES[name]?.(row) || null, "data-head": words },
      make("div", { class: "clamp" }, ...CELLS[name](row)),
    )),
  );
};

// The range of rows in the document: the visible rows and some more; for a printer, the first rows.
const inSight = () => {
  if (grid.all || grid.few) return [0, Math.min(grid.rows.length, PRINTED)];
  const { scroller, height } = grid;
  const first = Math.max(0, Math.floor(scroller.scrollTop / height) - SPARE);
  return [first, Math.min(grid.rows.length, first + Math.ceil(scroller.clientHeight / height) + 2 * SPARE)];
};

// Empty space in place of the rows that are not in the document.
const space = (first, end) => {
  grid.above.firstChild.firstChild.style.height = `${grid.all ? 0 : first * grid.height}px`;
  grid.below.firstChild.firstChild.style.height = `${grid.all ? 0 : (grid.rows.length - end) * grid.height}px`;
};

const draw = () => {
  const [first, end] = inSight();
  grid.body.replaceChildren(...Array.from({ length: end - first }, (_, step) => line(first + step)));
  space(first, end);
  // All rows are equally high. To measure one forces a layout, so that it is done once for each width.
  if (!grid.measured && !grid.all && !grid.few && end > first) {
    grid.measured = true;
    grid.height = grid.body.firstChild.getBoundingClientRect().height;
    space(first, end);
  }
  const active = grid.active >= first && grid.active < end;
  if (active) grid.whole.setAttribute("aria-activedescendant", `row-${grid.active}`);
  else grid.whole.removeAttribute("aria-activedescendant");
};

const show = (rows) => {
  grid.rows = rows;
  grid.few = rows.length < FEW;
  grid.scroller.classList.toggle("few", grid.few);
  grid.active = 0;
  grid.scroller.scrollTop = 0;
  grid.whole.setAttribute("aria-rowcount", rows.length + 1);
  grid.scroller.hidden = !rows.length;
  grid.heads.forEach((head, at) => {
    const isChosen = HEADS[at][0] === (chosen.sort || SUBJECT.first);
    const sort = isChosen ? (chosen.down || !chosen.sort ? "descending" : "ascending") : "none";
    head.setAttribute("aria-sort", sort);
  });
  draw();
};

const move = (to) => {
  const { scroller, height, rows } = grid;
  grid.active = Math.max(0, Math.min(rows.length - 1, to));
  const room = scroller.clientHeight - grid.heads[0].offsetHeight;
  const top = grid.active * height;
  if (grid.few) scroller.scrollTop = 0;
  else if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + room) scroller.scrollTop = top + height - room;
  draw();
  // The scroller itself may be only partly visible.
  byId(`row-${grid.active}`).scrollIntoView({ block: "nearest" });
};

const page = () => Math.max(1, Math.floor(grid.scroller.clientHeight / grid.height) - 2);

const KEYS = {
  ArrowDown: () => move(grid.active + 1),
  ArrowUp: () => move(grid.active - 1),
  PageDown: () => move(grid.active + page()),
  PageUp: () => move(grid.active - page()),
  Home: () => move(0),
  End: () => move(grid.rows.length - 1),
  Enter: () => SUBJECT.open(grid.rows[grid.active]),
  " ": () => SUBJECT.open(grid.rows[grid.active]),
};

const startTable = (changed) => {
  grid.scroller.append(grid.whole);
  let waiting = false;
  const later = () => {
    if (!waiting) requestAnimationFrame(() => { waiting = false; draw(); });
    waiting = true;
  };
  grid.scroller.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(() => {
    grid.measured = false;
    later();
  }).observe(grid.scroller);
  grid.whole.addEventListener("keydown", (event) => {
    if (event.target !== grid.whole || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    if (grid.rows.length) KEYS[event.key]();
  });
  grid.body.addEventListener("click", (event) => {
    const at = event.target.closest("tr")?.dataset.at;
    if (at === undefined || event.target.closest("a") || !getSelection().isCollapsed) return;
    move(Number(at));
    SUBJECT.open(grid.rows[at]);
  });
  grid.whole.querySelectorAll("[data-sort]").forEach((button) => button.addEventListener("click", () => {
    const name = button.dataset.sort;
    // Ascending, then descending, then the order without a choice.
    if (chosen.sort !== name) Object.assign(chosen, { sort: name, down: false });
    else if (!chosen.down) chosen.down = true;
    else Object.assign(chosen, { sort: "", down: false });
    changed();
  }));
};
