// The data of the page: the report, and its findings as objects.

const report = JSON.parse(document.getElementById("report-data").textContent);

const SEVERITIES = ["Critical", "High", "Medium", "Low"];
const CHOICES = [
  "severity", "effect", "class", "field", "cluster", "responsible", "status", "planned", "risk", "topic", "manifest", "cause", "id",
];

const SEARCHED = [
  "cluster", "topic", "class", "field", "expected", "actual", "owner", "effectReason", "reasons", "explanation",
  "message", "manifest", "file", "responsible", "severity",
];

const findings = (() => {
  const texts = [];
  const whole = (value) => {
    if (typeof value === "number") return texts[value];
    if (typeof value === "string") texts.push(value);
    return value;
  };
  return JSON.parse(document.getElementById("findings-data").textContent).map((short, at) => {
    const row = { at };
    report.columns.forEach((name, column) => { row[name] = whole(short[column]); });
    // Filters treat null and the empty text alike.
    row.risk ??= "";
    row.owner ??= "";
    row.responsible ??= "";
    row.manifest ??= "";
    row.age = (Date.parse(row.takenAt) - Date.parse(row.seenSince)) / 1000;
    row.searched = SEARCHED.map((name) => row[name] ?? "").join("\n").toLowerCase();
    return row;
  });
})();
