// Everything but the findings themselves: totals, clusters by class, and what only a fleet shows.

const WORST = 15;
const STEPS = [1, 3, 10, 30, 100, 300, 1000];

const startTotals = () => {
  const { findings: found, clusters, topics } = report;
  const late = report.oldest && (Date.parse(report.asOf) - Date.parse(report.oldest)) / 1000;
  const before = report.previous === null ? "no report before" : `since ${moment(report.previous)}`;
  const cards = [
    ["Findings", number(found.total), `on ${number(report.heat.total)} of ${count(clusters.wanted, "cluster")}`],
    ["New", number(found.new), before, "new"],
    ["Standing", number(found.standing), "the report before had them"],
    ["Resolved", number(found.resolved), found.unseen ? `${number(found.unseen)} not looked at again` : before],
    ["Topics in order", number(topics.inOrder), `of ${number(topics.compared)} compared`],
    ["Clusters compared", number(clusters.compared), clusters.unknown ? `${number(clusters.unknown)} unknown` : "all of them", "",
      clusters.unknown ? "loss" : "dim"],
    ["Oldest snapshot", report.oldest === null ? "none" : late ? span(late) : "same time",
      report.oldest === null ? "nothing was compared" : late ? "before the newest" : moment(report.oldest)],
  ];
  byId("totals").append(...cards.map(([words, big, small, tone, below]) => make("div", { class: "panel" },
    make("dt", {}, words), make("dd", { class: `big ${tone ?? ""}` }, big), make("dd", { class: below ?? "dim" }, small))));
  const old = (Date.now() - Date.parse(report.asOf)) / 1000;
  byId("about").append(`As of ${moment(report.asOf)}, `, make("span", { id: "ago" }, `${span(old)} ago`),
    ". Owner of records: ", outside(report.owner), ".");
};

const step = (many) => STEPS.filter((least) => many >= least).length;

const cell = (many, wanted, words) => {
  if (!many) return make("td", {});
  return make("td", { class: `heat-${step(many)}` }, make("a", { href: link(wanted), "aria-label": words }, number(many)));
};

const heat = { sort: "findings", all: false };

const heatRows = () => {
  const many = (one) => (heat.sort === "findings" ? one.findings : one.byClass[heat.sort] ?? 0);
  const rows = [...report.heat.rows].sort((one, other) => many(other) - many(one));
  return heat.all ? rows : rows.slice(0, WORST);
};

const drawHeat = () => {
  const kinds = Object.keys(report.classes).filter((kind) => report.findings.byClass[kind]);
  const head = (name, words, title) => {
    const button = make("button", { type: "button", title, "data-heat": name }, words);
    button.addEventListener("click", () => {
      heat.sort = name;
      drawHeat();
      byId("heat").querySelector(`[data-heat=${name}]`).focus();
    });
    return make("th", { scope: "col", "aria-sort": heat.sort === name ? "descending" : "none" }, button);
  };
  const cells = (wanted, all, numbers, where) => [
    make("td", {}, make("a", { href: link(wanted), "aria-label": `${number(all)} findings on ${where}` }, number(all))),
    ...kinds.map((kind) => cell(numbers[kind], { ...wanted, class: kind }, `${number(numbers[kind] ?? 0)} ${kind} on ${where}`)),
  ];
  const { total, byClass } = report.findings;
  byId("heat").replaceChildren(make("table", { class: "heat" },
    make("caption", { class: "hidden" }, "Findings by cluster and class"),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Cluster"), head("findings", "all", "Findings of every class"),
      ...kinds.map((kind) => head(kind, kind, report.classes[kind])))),
    make("tbody", {}, make("tr", { class: "sum" }, make("th", { scope: "row" }, "all clusters"),
      make("td", {}, make("a", { href: link({}), "aria-label": `all ${number(total)} findings` }, number(total))),
      ...kinds.map((kind) => make("td", {}, make("a", { href: link({ class: kind }), "aria-label": `${number(byClass[kind])} ${kind} on all clusters` },
        number(byClass[kind]))))),
    ...heatRows().map((one) => make("tr", {}, make("th", { scope: "row", title: one.cluster }, clusterName(one.cluster)),
      ...cells({ cluster: one.cluster }, one.findings, one.byClass, one.cluster || "the cluster"))))));
};

const startHeat = () => {
  const { total, rows } = report.heat;
  if (!total) return byId("heat").replaceWith(make("p", {}, "No cluster has any finding."));
  const clean = report.clean ? `; ${number(report.clean)} without any finding ${report.clean === 1 ? "is" : "are"} left out` : "";
  const key = STEPS.map((many) => make("span", { class: `key heat-${step(many)}` }, `${number(many)}+`));
  byId("heat-about").append(`${count(total, "cluster")} with findings${clean}. A number leads to its findings. `, make("span", { class: "keys" }, ...key));
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
  if (rows.length < total) byId("heat-more").append(` The ${number(total - rows.length)} with fewest are in summary.json only.`);
};

const other = (title, found, heads, cells, where) => {
  if (!found.total) return;
  const more = found.total > found.rows.length ? [make("p", { class: "dim" },
    `${number(found.total - found.rows.length)} more are in ${where}.`)] : [];
  byId("others").append(make("section", { class: "panel" }, make("h2", {}, `${title} (${number(found.total)})`),
    make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": title }, table(title, heads, found.rows.map(cells))), ...more));
};

const broker = (one) => `${number(one.partitions)} on broker ${one.broker}`;

const startOthers = () => {
  const where = "summary.json";
  other("Clusters not compared", report.unknown, ["Cluster", "Why"], (one) => [clusterName(one.cluster), outside(one.problem)], where);
  other("Owners", report.owners, ["Owner in the record", "Findings"], (one) => [
    make("a", { href: link({ owner: one.owner ?? "" }) }, one.owner === null ? "none" : outside(one.owner)), number(one.findings)], where);
  other("Not the same on all clusters", report.uneven, ["Topic", "Field", "Values"], (one) => {
    const values = one.values.flatMap((each) => [value(each.value), ` on ${count(each.clusters, "cluster")}`, make("br")]);
    return [outside(one.topic), outside(one.field), make("span", {}, ...values.slice(0, -1), one.more ? ` and ${number(one.more)} more` : "")];
  }, where);
  other("Brokers with too much", report.unbalanced, ["Cluster", "Load", "Mean", "Most", "Least"], (one) => [
    clusterName(one.cluster), one.load, number(one.mean), broker(one.most), broker(one.least)], where);
  const { broken, superseded, strangers } = report.inputs;
  const said = [[broken, "row", "could not be used: see broken.jsonl"], [superseded, "snapshot", "passed over for a newer one"],
    [strangers, "snapshot", "of clusters that are not part of this run"]].filter(([many]) => many);
  if (said.length) byId("others").append(make("section", { class: "panel" }, make("h2", {}, "Input"),
    make("ul", {}, ...said.map(([many, noun, words]) => make("li", {}, `${count(many, noun)} ${words}`)))));
};
