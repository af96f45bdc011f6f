// Clusters by class: a table whose cells are shaded, so that it can be read, copied, printed and used by keyboard.

const WORST = 15;
const STEPS = [1, 10, 100, 1000];

const heat = { sort: "findings", all: false };

// The most frequent classes first: a narrow screen does not have all columns.
const kinds = Object.keys(report.findings.byClass)
  .sort((one, other) => report.findings.byClass[other] - report.findings.byClass[one]);

const shade = (many) => `heat-${STEPS.filter((least) => many >= least).length}`;

// A number that links to its findings, with a label for screen readers.
const counted = (many, wanted, words) => make("a", { href: link(wanted), "aria-label": words }, number(many));

const cells = (all, numbers, wanted, where, shaded) => [
  make("td", {}, counted(all, wanted, `${count(all, "finding")} on ${where}`)),
  ...kinds.map((kind) => {
    const many = numbers[kind];
    if (!many) return make("td", {});
    const found = counted(many, { ...wanted, class: kind }, `${number(many)} ${kind} on ${where}`);
    return make("td", { class: shaded && shade(many) }, found);
  }),
];

const sortedBy = (name, words, title) => {
  const button = make("button", { type: "button", title, "data-heat": name }, words);
  button.addEventListener("click", () => {
    heat.sort = name;
    drawHeat();
    byId("heat").querySelector(`[data-heat=${name}]`).focus();
  });
  return make("th", { scope: "col", "data-head": words, "aria-sort": heat.sort === name ? "descending" : "none" }, button);
};

const clusterRows = () => {
  const many = (one) => (heat.sort === "findings" ? one.findings : one.byClass[heat.sort] ?? 0);
  const rows = [...report.heat.rows].sort((one, next) => many(next) - many(one));
  return (heat.all ? rows : rows.slice(0, WORST)).map((one) => make(
    "tr",
    {},
    make("th", { scope: "row", title: one.cluster }, clusterName(one.cluster)),
    ...cells(one.findings, one.byClass, { cluster: one.cluster }, one.cluster || "the cluster", true),
  ));
};

const drawHeat = () => {
  const { total, byClass } = report.findings;
  const heads = [
    make("th", { scope: "col" }, "Cluster"),
    sortedBy("findings", "all", "Findings of every class"),
    ...kinds.map((kind) => sortedBy(kind, kind, report.classes[kind])),
  ];
  const sum = [make("th", { scope: "row" }, "all clusters"), ...cells(total, byClass, {}, "all clusters", false)];
  byId("heat").replaceChildren(make(
    "table",
    { class: "heat" },
    make("caption", { class: "hidden" }, "Findings by cluster and class"),
    make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, make("tr", { class: "sum" }, ...sum), ...clusterRows()),
  ));
};

const aboutHeat = () => {
  const { clean, heat: { total } } = report;
  const left = clean ? `; ${number(clean)} without findings ${clean === 1 ? "is" : "are"} left out` : "";
  const key = STEPS.map((many) => make("span", { class: `key ${shade(many)}` }, `${number(many)}+`));
  return [
    `${count(total, "cluster")} with findings${left}. Each number links to its findings. `,
    make("span", { class: "keys" }, ...key),
  ];
};

const startHeat = () => {
  const { total, rows } = report.heat;
  if (!total) {
    byId("heat").replaceWith(make("p", {}, "No cluster has findings."));
    return;
  }
  byId("heat-about").append(...aboutHeat());
  drawHeat();
  if (rows.length > WORST) {
    const words = () => (heat.all ? `Show the first ${WORST} only` : `Show all ${number(rows.length)}`);
    const button = make("button", { type: "button" }, words());
    button.addEventListener("click", () => {
      heat.all = !heat.all;
      drawHeat();
      button.textContent = words();
    });
    byId("heat-more").append(button);
  }
  if (rows.length < total) {
    byId("heat-more").append(` The ${number(total - rows.length)} with the fewest findings are in summary.json only.`);
  }
};
