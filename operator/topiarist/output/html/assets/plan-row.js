// The parts of a row, in the table and in its dialog.

const several = plan.clusters.total + plan.failed.total > 1;

const textLines = (texts) => texts.map((text) => make("div", {}, outside(text)));

const reasonAndFix = (row) => [
  ...(row.reason ? [make("div", {}, outside(row.reason))] : []),
  ...(row.record ? [make("div", { class: "dim" }, outside(row.record))] : []),
  ...(row.fix ? [make("div", {}, make("span", { class: "dim" }, "fix: "), outside(row.fix))] : []),
];

const riskOf = ([risk, explanation]) => (explanation ? `${risk}: ${explanation}` : risk);

const scrolled = (label, content) => make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label }, content);

const detail = (label, heads, cells, more = "") => {
  if (!cells.length) return [];
  const columns = heads.map((_, at) => at).filter((at) => !at || cells.some((each) => each[at] !== ""));
  const shown = cells.map((each) => columns.map((at) => outside(each[at])));
  return [
    make("h3", {}, label), scrolled(label, table(label, columns.map((at) => heads[at]), shown)),
    ...(more ? [make("p", { class: "dim" }, outside(more))] : []),
  ];
};

const FIELDS = [
  ["Risk", (row) => [badge(row.level)]],
  ["Change", (row) => [outside(row.summary)]],
  ["Kind", (row) => [`${row.kind}: ${plan.kinds[row.kind] ?? ""}`]],
  ["Reason", (row) => row.reason && [outside(row.reason)]],
  ["Code", (row) => row.code && [outside(row.code)]],
  ["Fix", (row) => row.fix && [outside(row.fix)]],
  ["Record", (row) => row.record && [outside(row.record)]],
  ["At", (row) => row.place && [outside(row.place)]],
  ["Caused by", (row) => row.cause && [outside(row.cause)]],
];

// Rows of the topic itself that the dialog does not show.
const otherRows = (row) => rows.filter((each) => each !== row && each.topic === row.topic && each.cluster === row.cluster);

const openRow = (row) => {
  const shown = FIELDS.map(([words, made]) => [words, made(row)]).filter(([, found]) => found);
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => byId("row").close());
  const others = otherRows(row).map((each) => make("li", {}, badge(each.level), " ", outside(each.summary)));
  const config = row.config.map(([key, before, after, risk, explanation, note]) => [key, before, after, riskOf([risk, explanation]), note]);
  byId("row").replaceChildren(
    make("h2", { id: "row-title" }, outside(row.topic), ...(several ? [" on ", clusterName(row.cluster)] : [])),
    make("dl", {}, ...shown.flatMap(([words, found]) => [make("dt", {}, words), make("dd", {}, ...found)])),
    ...detail("Config", ["Key", "Before", "After", "Risk", "Note"], config),
    ...detail("Replicas", ["Partition", "From", "To", "Why"], row.lists, row.more),
    ...(others.length ? [make("h3", {}, "Also for this topic"), make("ul", {}, ...others)] : []),
    make("p", { class: "end" }, close),
  );
  byId("row").showModal();
};
