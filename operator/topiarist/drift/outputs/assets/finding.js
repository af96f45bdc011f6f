// The parts of a finding, in the table and in its dialog.

const planned = (row) => ({
  Change: `change (${row.risk})`, Refused: "refuse", Reported: "report",
}[row.planned] ?? row.planned);

const since = (row) => (row.status === "New" ? "new" : `${row.status === "Worse" ? "worse, " : ""}${span(row.age)}`);

// A finding about a document in git may have no cluster.
const ofDocument = (row) => ["invalid", "expired"].includes(row.class) && row.cluster === "";

const topicName = (row) => {
  if (row.topic !== "") return outside(row.topic);
  return make("span", { class: "dim" }, ofDocument(row) ? "a manifest" : "the whole cluster");
};

const where = (row) => (ofDocument(row) ? "" : clusterName(row.cluster));

// The reason of the plan in one text: the explanation of the risk, the message of a refusal or notice, and the fix.
const reason = (row) => [row.message, row.explanation, row.hint].filter(Boolean).join("; ");

// What the difference does now, in words.
const EFFECT_WORDS = {
  DataLoss: "data or copies are lost", Availability: "clients fail", Cost: "it costs", Order: "order changes", None: "nothing",
  Unknown: "unknown",
};
const effectWord = (row) => (
  make("span", row.effect === "DataLoss" ? { class: "loss" } : {}, EFFECT_WORDS[row.effect] ?? row.effect)
);
const effect = (row) => [effectWord(row), row.effectReason ? ": " : "", outside(row.effectReason)];

const responsible = (name) => (name ? outside(name) : make("span", { class: "dim" }, "none"));

const plan = (row) => make("span", row.risk === "DataLoss" ? { class: "loss" } : {}, planned(row));

// A difference that is only reported needs no plan next to its reason.
const planAndReason = (row) => {
  const why = outside(reason(row));
  if (!reason(row)) return [plan(row)];
  return row.planned === "Reported" ? [why] : [plan(row), ": ", why];
};

// Findings of a whole document or cluster have no values.
const valueOf = (row, name) => (row.expected === null && row.actual === null ? "" : value(row[name]));

const FIELDS = [
  ["Severity", (row) => [badge(row.severity), row.severityRule ? " " : "", outside(row.severityRule ?? "")]],
  ["Class", (row) => [`${row.class}: ${report.classes[row.class] ?? ""}`]],
  ["Field", (row) => [row.field === "" ? "the topic as a whole" : outside(row.field)]],
  ["Expected", (row) => [valueOf(row, "expected")]],
  ["Actual", (row) => [valueOf(row, "actual")]],
  ["It does", effect],
  ["The repair", (row) => [plan(row)]],
  ["Explanation", (row) => row.explanation && [outside(row.explanation)]],
  ["Reasons", (row) => row.reasons && [outside(row.reasons)]],
  ["Message", (row) => row.message && [outside(row.message)]],
  ["Fix", (row) => row.hint && [outside(row.hint)]],
  ["Command", (row) => row.command && copyable(row.command)],
  ["Repair", (row) => row.topic !== "" && canRepair() && repairs(["--id", row.id])],
  ["Cause", (row) => row.cause && [make("a", { href: link({ cause: row.cause }), class: "leave" }, "all findings of its cause")]],
  ["Manifest", (row) => row.manifest && [outside(row.manifest)]],
  ["File", (row) => row.file && [source(row)]],
  ["Responsible", (row) => [responsible(row.responsible)]],
  ["Owner", (row) => [responsible(row.owner)]],
  ["Modified externally", (row) => row.modifiedExternally && ["config, after the last write of topiarist"]],
  ["Read", (row) => [moment(row.takenAt)]],
  ["First seen", (row) => [moment(row.firstSeen) + (row.episodes === "1" ? ` (${since(row)})` : "")]],
  ["Came back", (row) => row.episodes !== "1" && [`${moment(row.seenSince)} (${since(row)})`]],
];

const openFinding = (row) => {
  const shown = FIELDS.map(([words, made]) => [words, made(row)]).filter(([, found]) => found && found[0] !== "");
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => byId("finding").close());
  const at = ofDocument(row) ? [] : [" on ", clusterName(row.cluster)];
  byId("finding").replaceChildren(
    make("h2", { id: "finding-title" }, topicName(row), ...at),
    make("dl", {}, ...shown.flatMap(([words, found]) => [make("dt", {}, words), make("dd", {}, ...found)])),
    make("p", { class: "end" }, close),
  );
  byId("finding").querySelector(".leave")?.addEventListener("click", () => byId("finding").close());
  byId("finding").showModal();
};
