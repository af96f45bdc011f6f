// The table of findings: only the visible rows are in the document, so that 20,000 rows stay fast.

const HEADS = [
  ["cluster", "Cluster"], ["topic", "Topic"], ["class", "Class"], ["field", "Field"], ["expected", "Expected"],
  ["actual", "Actual"], ["planned", "Planned"], ["since", "Age"],
];
const SPARE = 8;
const PRINTED = 500;

const planned = (row) => ({
  Change: `change (${row.risk})`, Refused: "refuse", Reported: "report",
}[row.planned] ?? row.planned);

const since = (row) => (row.status === "New" ? "new" : span(row.age));

const CELLS = {
  cluster: (row) => clusterName(row.cluster),
  topic: (row) => (row.topic === "" ? make("span", { class: "dim" }, "the whole cluster") : outside(row.topic)),
  class: (row) => make("span", { class: `kind kind-${row.class}` }, row.class),
  field: (row) => outside(row.field),
  expected: (row) => value(row.expected),
  actual: (row) => value(row.actual),
  planned: (row) => make("span", row.risk === "DataLoss" ? { class: "loss" } : {}, planned(row)),
  since: (row) => make("span", row.status === "New" ? { class: "new" } : {}, since(row)),
};

const grid = (() => {
  const above = make("tbody", { role: "presentation", class: "spacer" });
  const below = make("tbody", { role: "presentation", class: "spacer" });
  const body = make("tbody", {});
  const buttons = HEADS.map(([name, words]) => make("button", { type: "button", "data-sort": name }, words));
  const heads = HEADS.map(([name], at) => make("th", { scope: "col", class: `c-${name}` }, buttons[at]));
  const whole = make("table", { role: "grid", tabindex: "0", "aria-label": "Findings", "aria-describedby": "keys" },
    make("thead", {}, make("tr", { "aria-rowindex": "1" }, ...heads)), above, body, below);
  for (const spacer of [above, below]) {
    spacer.append(make("tr", { role: "presentation" }, make("td", { role: "presentation" })));
  }
  return { above, below, body, heads, whole, scroller: byId("table"), rows: [], active: 0, height: 36, all: false };
})();

// Tooltips with the text that a cell may be too narrow for.
const TITLES = {
  cluster: (row) => row.cluster,
  topic: (row) => row.topic,
  class: (row) => report.classes[row.class],
  field: (row) => row.field,
  expected: (row) => row.expected,
  actual: (row) => row.actual,
  planned: (row) => row.explanation,
};

const line = (at) => {
  const row = grid.rows[at];
  return make(
    "tr",
    { id: `row-${at}`, "aria-rowindex": at + 2, "data-at": at, "aria-selected": String(at === grid.active) },
    ...HEADS.map(([name]) => make("td", { class: `c-${name}`, title: TITLES[name]?.(row) || null }, CELLS[name](row))),
  );
};

// The range of rows in the document: the visible rows and some more; for a printer, the first rows.
const inSight = () => {
  if (grid.all) return [0, Math.min(grid.rows.length, PRINTED)];
  const { scroller, height } = grid;
  const first = Math.max(0, Math.floor(scroller.scrollTop / height) - SPARE);
  return [first, Math.min(grid.rows.length, first + Math.ceil(scroller.clientHeight / height) + 2 * SPARE)];
};

const draw = () => {
  const [first, end] = inSight();
  grid.body.replaceChildren(...Array.from({ length: end - first }, (_, step) => line(first + step)));
  const measured = grid.body.firstChild?.getBoundingClientRect().height;
  if (measured && !grid.all) grid.height = measured;
  grid.above.firstChild.firstChild.style.height = `${grid.all ? 0 : first * grid.height}px`;
  grid.below.firstChild.firstChild.style.height = `${grid.all ? 0 : (grid.rows.length - end) * grid.height}px`;
  const active = grid.active >= first && grid.active < end;
  if (active) grid.whole.setAttribute("aria-activedescendant", `row-${grid.active}`);
  else grid.whole.removeAttribute("aria-activedescendant");
};

const show = (rows) => {
  grid.rows = rows;
  grid.active = 0;
  grid.scroller.scrollTop = 0;
  grid.whole.setAttribute("aria-rowcount", rows.length + 1);
  grid.heads.forEach((head, at) => {
    const sort = HEADS[at][0] === chosen.sort ? (chosen.down ? "descending" : "ascending") : "none";
    head.setAttribute("aria-sort", sort);
  });
  draw();
};

const move = (to) => {
  const { scroller, height, rows } = grid;
  grid.active = Math.max(0, Math.min(rows.length - 1, to));
  const room = scroller.clientHeight - grid.heads[0].offsetHeight;
  const top = grid.active * height;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
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
  Enter: () => openFinding(grid.rows[grid.active]),
  " ": () => openFinding(grid.rows[grid.active]),
};

const startTable = (changed) => {
  grid.scroller.append(grid.whole);
  let waiting = false;
  const later = () => {
    if (!waiting) requestAnimationFrame(() => { waiting = false; draw(); });
    waiting = true;
  };
  grid.scroller.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(later).observe(grid.scroller);
  grid.whole.addEventListener("keydown", (event) => {
    if (event.target !== grid.whole || event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
    event.preventDefault();
    if (grid.rows.length) KEYS[event.key]();
  });
  grid.body.addEventListener("click", (event) => {
    const at = event.target.closest("tr")?.dataset.at;
    if (at === undefined || !getSelection().isCollapsed) return;
    move(Number(at));
    openFinding(grid.rows[at]);
  });
  grid.heads.forEach((head, at) => head.firstChild.addEventListener("click", () => {
    const name = HEADS[at][0];
    // Ascending, then descending, then unsorted.
    if (chosen.sort !== name) Object.assign(chosen, { sort: name, down: false });
    else if (!chosen.down) chosen.down = true;
    else Object.assign(chosen, { sort: "", down: false });
    changed();
  }));
};

const FIELDS = [
  ["Class", (row) => [CELLS.class(row), `: ${report.classes[row.class] ?? ""}`]],
  ["Field", (row) => [row.field === "" ? "the topic as a whole" : outside(row.field)]],
  ["Expected", (row) => [value(row.expected)]],
  ["Actual", (row) => [value(row.actual)]],
  ["Planned", (row) => [planned(row)]],
  ["Explanation", (row) => row.explanation && [outside(row.explanation)]],
  ["Reasons", (row) => row.reasons && [outside(row.reasons)]],
  ["Message", (row) => row.message && [outside(row.message)]],
  ["Fix", (row) => row.hint && [outside(row.hint)]],
  ["Owner", (row) => [row.owner === "" ? "none" : outside(row.owner)]],
  ["Modified externally", (row) => row.modifiedExternally && ["config, after the last write of topiarist"]],
  ["Read", (row) => [moment(row.takenAt)]],
  ["First seen", (row) => [`${moment(row.firstSeen)} (${since(row)})`]],
];

const openFinding = (row) => {
  const shown = FIELDS.map(([words, made]) => [words, made(row)]).filter(([, found]) => found);
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => byId("finding").close());
  byId("finding").replaceChildren(
    make("h2", { id: "finding-title" }, CELLS.topic(row), " on ", clusterName(row.cluster)),
    make("dl", {}, ...shown.flatMap(([words, found]) => [make("dt", {}, words), make("dd", {}, ...found)])),
    make("p", { class: "end" }, close),
  );
  byId("finding").showModal();
};
