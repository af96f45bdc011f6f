// Totals, and the tables about the whole fleet.

const card = ([words, big, small, tone, below]) => make(
  "div",
  { class: "panel" },
  make("dt", {}, words),
  make("dd", { class: `big ${tone ?? ""}` }, big),
  make("dd", { class: below ?? "dim" }, small),
);

const oldest = () => {
  if (report.oldest === null) return ["none", "no cluster was compared"];
  const late = (Date.parse(report.asOf) - Date.parse(report.oldest)) / 1000;
  return late ? [span(late), "before the newest"] : ["same time", "as all others"];
};

const startTotals = () => {
  const { findings: found, clusters, topics } = report;
  const before = report.previous === null ? "no previous report" : `since ${moment(report.previous)}`;
  const notEvaluated = found.notEvaluated ? `${number(found.notEvaluated)} not evaluated` : before;
  const unknown = clusters.unknown ? `${number(clusters.unknown)} unknown` : "all of them";
  byId("totals").append(...[
    ["Findings", number(found.total), `on ${number(report.heat.total)} of ${count(clusters.declared, "cluster")}`],
    ["New", number(found.new), before, "new"],
    ["Unchanged", number(found.unchanged), "also in the previous report"],
    ["Resolved", number(found.resolved), notEvaluated],
    ["Topics in sync", number(topics.inSync), `of ${number(topics.compared)} compared`],
    ["Clusters compared", number(clusters.compared), unknown, "", clusters.unknown ? "loss" : "dim"],
    ["Oldest snapshot", ...oldest()],
  ].map(card));
  const old = (Date.now() - Date.parse(report.asOf)) / 1000;
  const read = `As of ${moment(report.asOf)}, ${span(old)} ago. Owner of records: `;
  byId("about").append(read, outside(report.owner), ".");
};

const other = (title, found, heads, row) => {
  if (!found.total) return;
  const rest = found.total - found.rows.length;
  byId("others").append(make(
    "section",
    { class: "panel" },
    make("h2", {}, `${title} (${number(found.total)})`),
    make(
      "div",
      { class: "scroller", tabindex: "0", role: "region", "aria-label": title },
      table(title, heads, found.rows.map(row)),
    ),
    ...(rest ? [make("p", { class: "dim" }, `${number(rest)} more are in summary.json.`)] : []),
  ));
};

const difference = (one) => {
  const values = one.values.flatMap((each) => [
    value(each.value), ` on ${count(each.clusters, "cluster")}`, make("br"),
  ]);
  const more = one.more ? ` and ${number(one.more)} more` : "";
  return [outside(one.topic), outside(one.field), make("span", {}, ...values.slice(0, -1), more)];
};

const owner = (one) => [
  make("a", { href: link({ owner: one.owner ?? "" }) }, one.owner === null ? "none" : outside(one.owner)),
  number(one.findings),
];

const broker = (one) => `${number(one.partitions)} on broker ${one.broker}`;

const inputs = () => {
  const { broken, superseded, unknownClusters } = report.inputs;
  return [
    [broken, "invalid row", "(see broken.jsonl)"],
    [superseded, "snapshot", "replaced by a newer one"],
    [unknownClusters, "snapshot", "of clusters that are not part of this run"],
  ].filter(([many]) => many).map(([many, noun, words]) => make("li", {}, `${count(many, noun)} ${words}`));
};

const startOthers = () => {
  other("Clusters not compared", report.unknown, ["Cluster", "Problem"], (one) => [
    clusterName(one.cluster), outside(one.problem),
  ]);
  other("Owners", report.owners, ["Owner in the record", "Findings"], owner);
  other("Cross-cluster differences", report.crossClusterDifferences, ["Topic", "Field", "Values"], difference);
  other("Imbalanced brokers", report.unbalanced, ["Cluster", "Load", "Mean", "Most", "Least"], (one) => [
    clusterName(one.cluster), one.load, number(one.mean), broker(one.most), broker(one.least),
  ]);
  const unused = inputs();
  if (unused.length) {
    byId("others").append(make("section", { class: "panel" }, make("h2", {}, "Input that was not used"), make("ul", {}, ...unused)));
  }
};
