// Interaction: search, filters, the address, the theme, printing.

const LATER = 250;
const KEPT = "topiarist-colours";
const LABELS = {
  class: "Class", cluster: "Cluster", status: "Status", planned: "Planned", risk: "Risk", owner: "Owner",
};
const NOTHING = { cluster: "the cluster", risk: "none", owner: "none" };

const selects = {};
let waiting;

const option = (name, each) => make("option", { value: `=${each}` }, each === "" ? NOTHING[name] ?? "none" : each);

const update = () => {
  const rows = matching();
  show(rows);
  const all = known();
  const beyond = all > rows.length ? `; ${number(all - rows.length)} more are in findings.jsonl only` : "";
  byId("count").textContent = rows.length === report.findings.total ? count(rows.length, "finding")
    : `${number(rows.length)} of ${count(findings.length, "finding")} in this page${beyond}`;
  byId("clear").hidden = link(chosen) === "#";
};

// The address is written once typing pauses: browsers stop pages that do so at every key.
const changed = () => {
  update();
  clearTimeout(waiting);
  waiting = setTimeout(() => history.replaceState(null, "", link(chosen)), LATER);
};

const fromAddress = () => {
  clearTimeout(waiting);
  choose(location.hash);
  byId("search").value = chosen.q;
  for (const [name, select] of Object.entries(selects)) {
    const wanted = chosen[name] === undefined ? "" : `=${chosen[name]}`;
    if (![...select.options].some((each) => each.value === wanted)) select.append(option(name, chosen[name]));
    select.value = wanted;
  }
  update();
};

const startFilters = () => {
  for (const name of CHOICES) {
    const values = [...new Set(findings.map((row) => row[name]))].sort();
    const select = make("select", { id: `choose-${name}` }, make("option", { value: "" }, "any"));
    select.append(...values.map((each) => option(name, each)));
    select.addEventListener("change", () => {
      if (select.value === "") delete chosen[name];
      else chosen[name] = select.value.slice(1);
      changed();
    });
    selects[name] = select;
    byId("filters").append(make("div", {}, make("label", { for: select.id }, LABELS[name]), select));
  }
  byId("search").addEventListener("input", (event) => {
    chosen.q = event.target.value;
    changed();
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => {
    history.replaceState(null, "", "#");
    fromAddress();
    byId("search").focus();
  });
  if (report.shown < report.findings.total) {
    byId("sampled").hidden = false;
    const shown = `This page has ${number(report.shown)} of ${count(report.findings.total, "finding")}`;
    byId("sampled").textContent = `${shown}: the first ones of each cluster and class, by topic. `
      + "findings.jsonl, beside this page, has all findings.";
  }
};

const toFindings = () => {
  byId("findings").scrollIntoView();
  byId("findings").focus({ preventScroll: true });
};

// Some browsers deny storage to local files: the choice is then lost when the page is closed.
const stored = (work) => {
  try {
    return work(localStorage);
  } catch {
    return null;
  }
};

const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  document.querySelectorAll(".switch button").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.theme === theme));
  });
  drawCharts();
};

const startTheme = () => {
  document.querySelectorAll(".switch button").forEach((button) => button.addEventListener("click", () => {
    stored((storage) => storage.setItem(KEPT, button.dataset.theme));
    setTheme(button.dataset.theme);
  }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  const before = stored((storage) => storage.getItem(KEPT));
  setTheme(["light", "dark"].includes(before) ? before : "auto");
};

// A printed page cannot scroll: it has the first rows as a whole, and the light theme.
const onPaper = (printing) => {
  if (grid.all === printing) return;
  grid.all = printing;
  document.documentElement.toggleAttribute("data-printing", printing);
  drawCharts();
  draw();
  const rest = grid.rows.length - PRINTED;
  byId("paper").hidden = !printing || rest <= 0;
  byId("paper").textContent = `The first ${number(PRINTED)} of ${count(grid.rows.length, "finding")}.`;
};

const startPaper = () => {
  window.addEventListener("beforeprint", () => onPaper(true));
  window.addEventListener("afterprint", () => onPaper(false));
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));
};

startTotals();
startHeat();
startOthers();
startCharts();
startTheme();
startFilters();
startTable(changed);
fromAddress();
startPaper();
window.addEventListener("hashchange", () => {
  fromAddress();
  toFindings();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  toFindings();
});
