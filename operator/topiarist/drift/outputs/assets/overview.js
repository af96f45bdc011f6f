// Totals, and the tables about the whole fleet.

const card = ([words, big, small, tone, wanted]) => make(
  "div",
  { class: "panel" },
  make("dt", {}, words),
  make("dd", { class: `big ${tone ?? ""}` }, wanted ? make("a", { href: link(wanted) }, big) : big),
  make("dd", { class: "dim" }, ...[small].flat()),
);

const oldestFinding = () => {
  const one = report.oldestFinding;
  if (one === null) return ["Oldest", "none", "no finding"];
  const age = (Date.parse(report.asOf) - Date.parse(one.firstSeen)) / 1000;
  const at = ofDocument(one) ? [] : [" on ", clusterName(one.cluster)];
  const name = [one.class, " ", one.topic === "" ? "" : outside(one.topic), ...at];
  return ["Oldest", age ? span(age) : "new", name, "", { sort: "since", down: true }];
};

const startUrgent = () => {
  const { byEffect, byPlanned, new: fresh, worse } = report.findings;
  const losses = byEffect.DataLoss ?? 0;
  const refused = byPlanned.Refused ?? 0;
  const before = report.previous === null ? "no previous report: all are new" : `since ${moment(report.previous)}`;
  byId("urgent").append(...[
    ["Data loss", number(losses), "data or copies are lost now", losses && "loss", losses && { effect: "DataLoss" }],
    ["Refused", number(refused), "a plan refuses these changes", "", refused && { planned: "Refused" }],
    ["New", number(fresh), before, "", fresh && { status: "New" }],
    ...(worse ? [["Worse", number(worse), "than in the previous report", "", { status: "Worse" }]] : []),
    oldestFinding(),
  ].map(card));
};

const upgradeLink = ({ risks, byCluster }) => {
  const stopped = risks.some((one) => one.effect === "stopsBrokers");
  const words = stopped ? "some brokers would not start" : `${count(byCluster.total, "cluster")} with risks`;
  return make("a", { href: "#upgrade", class: stopped ? "inside loss" : "inside" }, words);
};

const oldestSnapshot = () => {
  if (report.oldest === null) return "no cluster was compared";
  const late = (Date.parse(report.asOf) - Date.parse(report.oldest)) / 1000;
  return late ? `${span(late)} before the newest` : "as new as all others";
};

const startTotals = () => {
  const { findings: found, clusters, topics, accepted, upgrade } = report;
  const fact = ([words, ...rest]) => make("div", {}, make("dt", {}, words), make("dd", {}, ...rest));
  const notEvaluated = found.notEvaluated ? `, ${number(found.notEvaluated)} not evaluated` : "";
  const unknown = clusters.unknown ? make("span", { class: "loss" }, `, ${number(clusters.unknown)} unknown`) : "";
  byId("totals").append(...[
    ["Findings", `${number(found.total)}; ${number(report.drifted)} of ${count(clusters.compared, "compared cluster")} differ`],
    ["Resolved", `${number(found.resolved)}${notEvaluated}`],
    ["Accepted", accepted.total ? make("a", { href: "#accepted", class: "inside" }, number(accepted.total)) : "0"],
    ["Topics in sync", `${number(topics.inSync)} of ${number(topics.compared)}`],
    ["Clusters compared", number(clusters.compared), unknown],
    ["Oldest snapshot", oldestSnapshot()],
    ...(upgrade ? [[`Upgrade to Kafka ${upgrade.target}`, upgradeLink(upgrade)]] : []),
  ].map(fact));
  const old = (Date.now() - Date.parse(report.asOf)) / 1000;
  const read = `As of ${moment(report.asOf)}, ${span(old)} ago. Owner of records: `;
  byId("about").append(read, outside(report.owner), ".");
};

const MAX_GAPS = 10;

const rest = (found) => (found.total > found.rows.length
  ? [make("p", { class: "dim" }, `${number(found.total - found.rows.length)} more are in summary.json.`)] : []);

const gap = (title, words, found) => {
  const items = found.rows.map((parts) => make("li", {}, ...parts));
  byId("gaps").append(make(
    "section",
    { class: "note" },
    make("h2", {}, title),
    make("p", {}, ...words),
    make("ul", {}, ...items),
    ...rest(found),
  ));
};

const mapped = (found, row) => ({ total: found.total, rows: found.rows.map(row) });

// Everything that the findings cannot have, said once, before them.
const startGaps = () => {
  const { unknown, incomplete, findings: { byClass } } = report;
  if (unknown.total) {
    gap(`Clusters not compared (${number(unknown.total)})`, ["Nothing is known of their topics."],
      mapped(unknown, (one) => [clusterName(one.cluster), ": ", outside(one.problem)]));
  }
  if (incomplete.total) {
    gap(`Incomplete clusters (${number(incomplete.total)})`,
      ["Their snapshots have invalid rows. Topics without a valid row have no findings."],
      mapped(incomplete, (one) => [
        clusterName(one.cluster), `: ${count(one.notJudged, "topic")} not judged, ${count(one.rows, "invalid row")} in `,
        outside(one.file), ": ", outside(one.message),
      ]));
  }
  const invalid = findings.filter((row) => row.class === "invalid").slice(0, MAX_GAPS);
  if (invalid.length) {
    gap(`Invalid manifests (${number(byClass.invalid)})`,
      ["Their topics were not compared. They are ", make("a", { href: link({ class: "invalid" }) }, "among the findings"), "."],
      { total: invalid.length, rows: invalid.map((row) => [source(row), ": ", outside(row.message)]) });
  }
};

const scrollable = (title, made) => make(
  "div",
  { class: "scroller", tabindex: "0", role: "region", "aria-label": title },
  made,
);

const other = (title, found, heads, row, ...words) => {
  if (!found.total) return;
  byId("others").append(make(
    "section",
    { class: "panel" },
    make("h2", {}, `${title} (${number(found.total)})`),
    ...words,
    scrollable(title, table(title, heads, found.rows.map(row))),
    ...rest(found),
  ));
};

const linked = (many, wanted, words) => (many ? counted(many, wanted, `${number(many)} ${words}`) : "");

const scores = (one) => {
  const wanted = { responsible: one.responsible ?? "" };
  const name = one.responsible ?? "none";
  return [
    make("a", { href: link(wanted) }, one.responsible === null ? "none" : outside(one.responsible)),
    linked(one.findings, wanted, `findings of ${name}`),
    ...SEVERITIES.map((severity) => linked(one.bySeverity[severity], { ...wanted, severity }, `${severity} of ${name}`)),
    linked(one.new, { ...wanted, status: "New" }, `new of ${name}`),
  ];
};

const placement = (one) => [
  clusterName(one.cluster),
  ...report.placementClasses.map((kind) => linked(
    one.byClass[kind], { cluster: one.cluster, class: kind }, `${kind} on ${one.cluster || "the cluster"}`,
  )),
];

const acceptedDrift = (row) => {
  const { name, reason: why, author, until } = row.exception;
  return [
    make("span", {}, make("div", {}, topicName(row)), make("div", { class: "dim" }, clusterName(row.cluster))),
    make("span", {}, make("div", {}, row.class), make("div", { class: "dim" }, outside(row.field))),
    value(row.expected),
    value(row.actual),
    outside(why),
    outside(author),
    make("span", { class: "keys" }, until.slice(0, 10)),
    make("span", {}, make("div", {}, outside(name)), make("div", { class: "dim" }, source({ link: null, ...row.exception }, shortPlace))),
  ];
};

const ACCEPTED_HEADS = ["Topic", "Class and field", "Expected", "Actual", "Reason", "Author", "Until", "Exception"];

const startAccepted = () => {
  const { accepted, unmatched } = report;
  if (!accepted.total && !unmatched.total) return;
  const words = "Differences that an exception in git accepts. They are in none of the numbers above.";
  const title = make("h2", { id: "accepted-title" }, `Accepted drift (${number(accepted.total)})`);
  byId("accepted").append(title, make("p", { class: "dim" }, words));
  if (accepted.total) {
    byId("accepted").append(scrollable("Accepted drift", cards("Accepted drift", ACCEPTED_HEADS, accepted.rows.map(acceptedDrift))));
    if (accepted.total > accepted.rows.length) {
      const more = number(accepted.total - accepted.rows.length);
      byId("accepted").append(make("p", { class: "dim" }, `${more} more are in accepted.jsonl.`));
    }
  }
  if (unmatched.total) {
    const items = unmatched.rows.map((one) => make("li", {}, outside(one.name), " (", outside(place(one)), ")"));
    byId("accepted").append(make("h3", {}, `Exceptions that match nothing (${number(unmatched.total)})`),
      make("ul", {}, ...items), ...rest(unmatched));
  }
  byId("accepted").hidden = false;
  byId("accepted").setAttribute("aria-labelledby", "accepted-title");
};

const EFFECTS = { stopsBrokers: "brokers do not start", dropped: "dropped", defaultChanges: "another default" };

const example = (one) => make("div", {},
  outside(one.topic), " on ", clusterName(one.cluster), one.value === null ? "" : ": ", one.value === null ? "" : outside(one.value),
  ...(one.file === null ? [] : [" ", make("span", { class: "dim" }, source({ link: null, ...one }, shortPlace))]));

const upgradeRisk = (one) => [
  make("span", one.effect === "stopsBrokers" ? { class: "loss" } : {}, EFFECTS[one.effect]),
  outside(one.config),
  number(one.clusters),
  number(one.topics),
  make("span", {}, make("div", {}, outside(one.message)), make("div", { class: "dim" }, outside(one.hint))),
  make("span", {}, ...one.examples.map(example)),
];

const startUpgrade = () => {
  const { upgrade } = report;
  if (!upgrade) return;
  const { target, checked, risks, byCluster } = upgrade;
  const title = `Upgrade to Kafka ${target}`;
  byId("upgrade").append(make("h2", { id: "upgrade-title" }, title), make("p", { class: "dim" }, risks.length
    ? `${count(checked, "cluster")} checked, ${number(byCluster.total)} with risks. topiarist upgrade-check names every topic.`
    : `${count(checked, "cluster")} checked: no config of a topic is at risk.`));
  if (risks.length) {
    const heads = ["Effect", "Config", "Clusters", "Topics", "Description and remedy", "For example"];
    const name = "Upgrade risks by config";
    byId("upgrade").append(scrollable(name, cards(name, heads, risks.map(upgradeRisk))));
  }
  byId("upgrade").hidden = false;
  byId("upgrade").setAttribute("aria-labelledby", "upgrade-title");
};

// The first of some names, with the number of the others.
const named = (names, total, show) => names.flatMap((name, at) => [...(at ? [", "] : []), show(name)])
  .concat(total > names.length ? [` and ${number(total - names.length)} more`] : []);

const causeTopics = (one, most = 4) => named(one.topics.slice(0, most), one.topicCount, (topic) => topicName({ ...one.differences[0], topic, cluster: one.clusters[0] }));

const causeClusters = (one, most = 4) => named(one.clusters.slice(0, most), one.clusterCount, clusterName);

// One difference of a cause: the values, or the class if each of its findings has another value.
const causeDifference = ({ class: kind, field, expected, actual }) => {
  if (expected === null && actual === null) return make("div", {}, field === "" ? kind : `${kind} `, outside(field));
  const wanted = kind === "unmanaged" ? [] : [", wanted ", value(expected)];
  return make("div", {}, outside(field), " ", value(actual), ...wanted);
};

const causeDifferences = (one) => [
  ...one.differences.map(causeDifference), ...(one.more ? [make("div", {}, `and ${number(one.more)} more`)] : []),
];

const cause = (one) => [
  badge(one.severity),
  make("span", {}, ...causeTopics(one)),
  make("span", {}, ...causeDifferences(one)),
  make("span", {}, ...causeClusters(one)),
  make("span", {}, ...effect(one)),
  counted(one.findings, { cause: one.id }, `${count(one.findings, "finding")} of this cause`),
];

const startFirst = () => {
  if (!report.first.length) return;
  const items = report.first.map((one) => make("li", {},
    make("div", { class: "name" }, badge(one.severity), " ", ...causeTopics(one, 2), " on ", ...causeClusters(one, 2)),
    make("div", {}, ...causeDifferences(one)),
    make("div", { class: "dim" }, ...effect(one), ". ", make("a", { href: link({ cause: one.id }) }, count(one.findings, "finding")))));
  byId("first").append(make("h2", { id: "first-title" }, "Begin with"), make("ol", {}, ...items));
  byId("first").hidden = false;
};

const startCauses = () => {
  const { causes, findings: { total } } = report;
  if (!causes.total) return;
  const heads = ["Severity", "Topics", "Differences", "Clusters", "Effect", "Findings"];
  byId("causes").append(
    make("h2", { id: "causes-title" }, `Causes (${number(causes.total)})`),
    make("p", { class: "dim" }, `${count(total, "finding")} have ${count(causes.all, "cause")}. Of these, ${number(causes.total)} `
      + "have several findings: one change has probably made them, and one can repair them."),
    scrollable("Causes", cards("Causes", heads, causes.rows.map(cause))), ...rest(causes),
  );
  byId("causes").hidden = false;
};

const difference = (one) => {
  const values = one.values.flatMap((each) => [
    value(each.value), ` on ${count(each.clusters, "cluster")}`, make("br"),
  ]);
  const more = one.more ? ` and ${number(one.more)} more` : "";
  return [
    make("a", { href: link({ topic: one.topic, field: one.field }) }, outside(one.topic)), outside(one.field),
    make("span", {}, ...values.slice(0, -1), more),
  ];
};

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
  const byCluster = report.upgrade?.byCluster ?? { total: 0, rows: [] };
  other("By responsible", report.responsible, ["Responsible", "All", ...SEVERITIES, "New"], scores);
  other("Replica placement", report.placement, ["Cluster", ...report.placementClasses], placement,
    make("p", { class: "dim" }, "Topics whose replicas lack racks, have unequal widths, are uneven, or are on drained brokers."));
  other("Upgrade risks by cluster", byCluster, ["Cluster", ...Object.values(EFFECTS)], (one) => [
    clusterName(one.cluster), ...Object.keys(EFFECTS).map((effect) => (one[effect] ? number(one[effect]) : "")),
  ], make("p", { class: "dim" }, `Topics that an upgrade to Kafka ${report.upgrade?.target} affects.`));
  other("Cross-cluster differences", report.crossClusterDifferences, ["Topic", "Field", "Values"], difference);
  other("Imbalanced brokers", report.unbalanced, ["Cluster", "Load", "Mean", "Most", "Least"], (one) => [
    clusterName(one.cluster), one.load, number(one.mean), broker(one.most), broker(one.least),
  ]);
  const unused = inputs();
  if (unused.length) {
    byId("others").append(make("section", { class: "panel" }, make("h2", {}, "Input that was not used"), make("ul", {}, ...unused)));
  }
};
