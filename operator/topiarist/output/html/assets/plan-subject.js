// The subject of the table: the rows of a plan with their columns, filters and orders.

const ORDERS = {
  level: (row) => LEVELS.indexOf(row.level),
  topic: (row) => row.topic,
  cluster: (row) => row.cluster,
  change: (row) => `${row.kind} ${row.summary}`,
};

const HEADS = [
  ["level", "Risk"], ["topic", "Topic"], ["change", "Change"], ["before", "Before"], ["after", "After"], ["why", "Reason and fix"],
];

// Cells that need their head as a label in a card.
const LABELLED = ["before", "after", "why"];

const CELLS = {
  level: (row) => [badge(row.level)],
  topic: (row) => [
    make("div", { class: "name" }, outside(row.topic)),
    ...(several ? [make("div", {}, clusterName(row.cluster))] : []),
    make("div", { class: "dim" }, outside(row.place.split("/").slice(-2).join("/"))),
  ],
  change: (row) => [make("div", {}, outside(row.summary)), ...(row.code ? [make("div", { class: "dim" }, outside(row.code))] : [])],
  before: (row) => textLines(row.before),
  after: (row) => textLines(row.after),
  why: reasonAndFix,
};

// Tooltips with the text that a cell may be too narrow for.
const TITLES = {
  topic: (row) => `${row.topic}\n${row.place}`,
  before: (row) => row.before.join("\n"),
  after: (row) => row.after.join("\n"),
  why: (row) => [row.reason, row.record, row.fix].filter(Boolean).join("\n"),
};

const LABELS = { level: "Risk", kind: "Kind", cluster: "Cluster" };
const NOTHING = { cluster: "the cluster" };
const ORDER_WORDS = [["", "riskiest first"], ["topic", "topic"], ["cluster", "cluster"], ["change", "kind of change"]];

const noRows = () => [
  make("p", {}, plan.failed.total ? "There is nothing to show: no cluster was planned."
    : "There is nothing to review: no change, no refusal and no notice."),
];

const SUBJECT = {
  noun: "row", title: "Changes, refusals and notices", section: "changes", first: "level", file: "the plan",
  sample: "the riskiest. topiarist plan --out saves the whole plan.",
  rows, inOrder: rows, total: plan.total, known: () => undefined, open: openRow, none: noRows,
  hints: () => (rows.length < plan.total ? [make("p", {}, "This page does not have all rows: the plan itself may have some.")] : []),
};
