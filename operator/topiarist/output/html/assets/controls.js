// Interaction: search, filters, the address, the theme, printing.

const LATER = 250;
const KEPT = "topiarist-colours";

const selects = {};
let waiting;

const option = (name, each) => make("option", { value: `=${each}` }, each === "" ? NOTHING[name] ?? "none" : each);

// A filter that only links choose, and no list.
const isLinked = (name) => SUBJECT.linked?.includes(name);

const inWords = (name, each) => (name === "q" ? `the search "${each}"` : `${LABELS[name].toLowerCase()} ${each || NOTHING[name]}`);

// The reason for an empty table: nothing to show at all, or the conditions, with what is left without each of them.
const why = () => {
  if (!SUBJECT.total) return SUBJECT.none();
  const names = ["q", ...CHOICES].filter((name) => chosen[name]?.trim() || (name !== "q" && chosen[name] === ""));
  const said = names.map((name) => inWords(name, chosen[name])).join(", ");
  const without = names.map((name) => {
    const left = { ...chosen, [name]: name === "q" ? "" : undefined };
    const words = `Without ${inWords(name, chosen[name])}: ${count(matching(left).length, SUBJECT.noun)}`;
    return make("li", {}, make("a", { href: link(left) }, outside(words)));
  });
  return [
    make("p", {}, `No ${SUBJECT.noun} in this page matches `, outside(said), "."), ...SUBJECT.hints(), make("ul", {}, ...without),
  ];
};

const update = () => {
  const rows = inView();
  show(rows);
  byId("empty").hidden = rows.length > 0;
  byId("keys").hidden = rows.length === 0;
  byId("empty").replaceChildren(...(rows.length ? [] : why()));
  const order = (chosen.down ? "-" : "") + chosen.sort;
  const select = byId("order");
  if (![...select.options].some((each) => each.value === order)) {
    select.append(make("option", { value: order }, `${chosen.sort}, ${chosen.down ? "descending" : "ascending"}`));
  }
  select.value = order;
  const all = SUBJECT.known();
  const beyond = all > rows.length ? `; ${number(all - rows.length)} more are in ${SUBJECT.file} only` : "";
  byId("count").textContent = rows.length === SUBJECT.total ? count(rows.length, SUBJECT.noun)
    : `${number(rows.length)} of ${count(SUBJECT.rows.length, SUBJECT.noun)} in this page${beyond}`;
  byId("clear").hidden = link(chosen) === "#";
  SUBJECT.shown?.(rows);
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
    select.parentElement.hidden = wanted === "" && isLinked(name);
  }
  update();
};

const startFilters = () => {
  for (const name of CHOICES) {
    const values = isLinked(name) ? [] : [...new Set(SUBJECT.rows.map((row) => row[name]))].sort();
    const select = make("select", { id: `choose-${name}` }, make("option", { value: "" }, "any"));
    select.append(...values.map((each) => option(name, each)));
    select.addEventListener("change", () => {
      if (select.value === "") delete chosen[name];
      else chosen[name] = select.value.slice(1);
      select.parentElement.hidden = select.value === "" && isLinked(name);
      changed();
    });
    selects[name] = select;
    byId("filters").append(make("div", {}, make("label", { for: select.id }, LABELS[name]), select));
  }
  const orders = ORDER_WORDS.map(([name, words]) => make("option", { value: name }, words));
  const select = make("select", { id: "order" }, ...orders);
  select.addEventListener("change", () => {
    Object.assign(chosen, { sort: select.value.replace("-", ""), down: select.value.startsWith("-") });
    changed();
  });
  byId("filters").append(make("div", {}, make("label", { for: "order" }, "Order"), select));
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
  if (SUBJECT.rows.length < SUBJECT.total) {
    byId("sampled").hidden = false;
    const shown = `This page has ${number(SUBJECT.rows.length)} of ${count(SUBJECT.total, SUBJECT.noun)}`;
    byId("sampled").textContent = `${shown}: ${SUBJECT.sample}`;
  }
};

const goTo = (id) => {
  byId(id).scrollIntoView();
  byId(id).focus({ preventScroll: true });
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
};

const startTheme = () => {
  document.querySelectorAll(".switch button").forEach((button) => button.addEventListener("click", () => {
    stored((storage) => storage.setItem(KEPT, button.dataset.theme));
    setTheme(button.dataset.theme);
  }));
  const before = stored((storage) => storage.getItem(KEPT));
  setTheme(["light", "dark"].includes(before) ? before : "auto");
};

// A printed page cannot scroll: it has the first rows as a whole, and the light theme.
const onPaper = (printing) => {
  if (grid.all === printing) return;
  grid.all = printing;
  document.documentElement.toggleAttribute("data-printing", printing);
  draw();
  const rest = grid.rows.length - PRINTED;
  byId("paper").hidden = !printing || rest <= 0;
  byId("paper").textContent = `The first ${number(PRINTED)} of ${count(grid.rows.length, SUBJECT.noun)}.`;
};

const startPaper = () => {
  window.addEventListener("beforeprint", () => onPaper(true));
  window.addEventListener("afterprint", () => onPaper(false));
  matchMedia("print").addEventListener("change", (event) => onPaper(event.matches));
};

// The functions of a page run first; then the table is filled, as the address says.
const startPage = () => {
  startTheme();
  startFilters();
  startTable(changed);
  fromAddress();
  startPaper();
  window.addEventListener("hashchange", () => {
    fromAddress();
    goTo(SUBJECT.section);
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    goTo(SUBJECT.section);
  });
  document.querySelectorAll("a.inside").forEach((each) => each.addEventListener("click", (event) => {
    event.preventDefault();
    goTo(each.hash.slice(1));
  }));
};
