// The subject of the table: findings with their columns, filters and orders.

const ORDERS = {
  cluster: (row) => row.cluster,
  topic: (row) => row.topic,
  class: (row) => `${row.class} ${row.field}`,
  expected: (row) => row.expected ?? "",
  actual: (row) => row.actual ?? "",
  planned: (row) => row.planned + ["", "Safe", "Disruptive", "DataLoss"].indexOf(row.risk),
  responsible: (row) => row.responsible,
  since: (row) => row.age,
};

// Without a chosen order, the most severe findings are first, then the oldest.
const bySeverity = (() => {
  const key = (row) => `${SEVERITIES.indexOf(row.severity)}${row.firstSeen}`;
  const keys = findings.map(key);
  return [...findings].sort((one, other) => {
    const [left, right] = [keys[one.at], keys[other.at]];
    return left < right ? -1 : left > right ? 1 : one.at - other.at;
  });
})();

// The number of matching findings in the whole report; undefined if only the page could be counted.
const known = () => {
  if (findings.length === report.findings.total) return undefined;
  const others = CHOICES.filter((name) => !["class", "cluster"].includes(name));
  if (chosen.q || others.some((name) => chosen[name] !== undefined)) return undefined;
  const of = (numbers) => (chosen.class === undefined
    ? Object.values(numbers).reduce((sum, many) => sum + many, 0) : numbers[chosen.class] ?? 0);
  if (chosen.cluster === undefined) return of(report.findings.byClass);
  const found = report.heat.rows.find((one) => one.cluster === chosen.cluster);
  return found && of(found.byClass);
};

const HEADS = [
  ["severity", "Severity"], ["topic", "Topic"], ["class", "Class and field"], ["expected", "Expected"],
  ["actual", "Actual"], ["planned", "Effect, and repair"], ["responsible", "Responsible"], ["since", "Age"],
];

// Cells that need their head as a label in a card.
const LABELLED = ["class", "expected", "actual", "planned", "responsible"];

const lines = (...parts) => parts.map((part) => make("div", {}, part));

const CELLS = {
  severity: (row) => [badge(row.severity)],
  topic: (row) => [
    make("div", { class: "name" }, topicName(row)), make("div", {}, where(row)), make("div", { class: "dim" }, source(row, shortPlace)),
  ],
  class: (row) => lines(row.class, outside(row.field)),
  expected: (row) => [valueOf(row, "expected")],
  actual: (row) => [valueOf(row, "actual")],
  planned: (row) => [
    ...(row.effect === "None" ? [] : [make("div", {}, effectWord(row))]), make("div", {}, ...planAndReason(row)),
  ],
  responsible: (row) => [responsible(row.responsible)],
  since: (row) => [make("span", row.status !== "Unchanged" ? { class: "new" } : {}, since(row))],
};

// Tooltips with the text that a cell may be too narrow for.
const TITLES = {
  topic: (row) => (row.file === null ? row.topic : `${row.topic}\n${place(row)}`),
  class: (row) => report.classes[row.class],
  expected: (row) => row.expected,
  actual: (row) => row.actual,
  planned: (row) => [row.effectReason, reason(row)].filter(Boolean).join("; "),
};

const LABELS = {
  severity: "Severity", effect: "Effect", class: "Class", cluster: "Cluster", responsible: "Responsible", status: "Status",
  planned: "Planned", risk: "Risk", field: "Field", topic: "Topic", manifest: "Manifest", cause: "Cause", id: "Finding",
};
const NOTHING = {
  cluster: "the cluster", risk: "none", responsible: "none", field: "the topic as a whole", topic: "the whole cluster",
  manifest: "none", cause: "none",
};
const ORDER_WORDS = [
  ["", "severity, then age"], ["-since", "oldest first"], ["since", "newest first"], ["cluster", "cluster"],
  ["topic", "topic"], ["class", "class and field"], ["responsible", "responsible"], ["-planned", "plan"],
];

// The reason for a report without findings.
const noFindings = () => {
  const { topics, clusters } = report;
  if (!clusters.compared) return [make("p", {}, "There are no findings because no cluster was compared.")];
  const compared = `${count(topics.compared, "topic")} on ${count(clusters.compared, "cluster")}`;
  return [make("p", {}, `There are no findings: ${compared} were compared, and all match their manifests.`)];
};

const findingHints = () => {
  const unknown = report.unknown.rows.find((one) => one.cluster === chosen.cluster);
  return [
    ...(unknown ? [make("p", {}, "The cluster was not compared: ", outside(unknown.problem))] : []),
    ...(findings.length < report.findings.total
      ? [make("p", {}, "This page does not have all findings: findings.jsonl may have some.")] : []),
  ];
};

const SUBJECT = {
  noun: "finding", title: "Findings", section: "findings", first: "severity", file: "findings.jsonl",
  sample: "the critical ones, and the first ones of each cluster and class. findings.jsonl, beside this page, has all findings.",
  rows: findings, inOrder: bySeverity, total: report.findings.total,
  // Filters with a choice only while a link has chosen it: there are too many values for a list.
  linked: ["topic", "manifest", "cause", "id"],
  shown: (rows) => showRepairs(rows),
  known, open: openFinding, none: noFindings, hints: findingHints,
};
