// Clusters side by side: a row for each field of a topic, a column for each cluster.

const MAX_MATRIX = 100;

const matrixValue = (row, value_, at) => {
  if (report.between.unread[at]) return make("span", { class: "dim" }, "not read");
  if (value_ === false) return make("span", { class: "dim" }, "no topic");
  return row.field === "topic" && value_ === null ? make("span", { class: "high" }, "missing") : value(value_);
};

const matrixRow = (row) => [
  make("span", {}, make("div", { class: "name" }, outside(row.topic)), make("div", { class: "dim" }, outside(row.responsible ?? ""))),
  make("span", {}, make("div", {}, outside(row.field)), make("div", { class: "high" }, row.differs ? "differs" : "")),
  ...row.values.map((each, at) => matrixValue(row, each, at)),
];

const matrixControl = (id, words, control) => make("div", {}, make("label", { for: id }, words), control);

const startBetween = () => {
  const { between } = report;
  if (!between) return;
  const { clusters, rows, total, topics, topicsThatDiffer: differ, valuesThatDiffer: values } = between;
  const teams = [...new Set(rows.map((row) => row.responsible ?? ""))].sort();
  const topic = make("input", { id: "matrix-topic", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "a part of its name" });
  const team = make("select", { id: "matrix-team" }, make("option", { value: "" }, "any"),
    ...teams.map((each) => make("option", { value: `=${each}` }, each || "none")));
  const shown = make("select", { id: "matrix-shown" }, make("option", { value: "differ" }, "values that differ"), make("option", { value: "" }, "all values"));
  const said = make("p", { class: "dim", role: "status" });
  const place = make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Values by cluster" });
  const heads = ["Topic", "Field", ...clusters];
  const draw = () => {
    const words = topic.value.trim().toLowerCase();
    const found = rows.filter((row) => (shown.value === "" || row.differs) && row.topic.toLowerCase().includes(words)
      && (team.value === "" || team.value === `=${row.responsible ?? ""}`));
    const beyond = found.length > MAX_MATRIX ? `, of which the first ${MAX_MATRIX} are shown: name a topic or a team` : "";
    const left = total > rows.length ? ` This page has ${number(rows.length)} of ${number(total)} values; between.json has all.` : "";
    said.textContent = `${count(found.length, "value")} selected${beyond}.${left}`;
    place.replaceChildren(...(found.length ? [cards("Values by cluster", heads, found.slice(0, MAX_MATRIX).map(matrixRow))] : []));
    place.hidden = !found.length;
  };
  shown.value = values ? "differ" : "";
  for (const [control, event] of [[topic, "input"], [team, "change"], [shown, "change"]]) control.addEventListener(event, draw);
  byId("between").append(
    make("h2", { id: "between-title" }, "Clusters side by side"),
    make("p", { class: "dim" }, `${count(topics, "topic")} on `, ...clusters.flatMap((name, at) => [at ? ", " : "", clusterName(name)]),
      `, as they are: ${values ? `${number(differ)} differ in ${count(values, "value")}` : topics ? "all values are the same" : "no topic to compare"}. A manifest may ask for that.`),
    make("form", { class: "filters", role: "search", "aria-label": "Values by cluster" },
      matrixControl("matrix-topic", "Topic", topic), matrixControl("matrix-team", "Responsible", team), matrixControl("matrix-shown", "Show", shown)),
    said, place,
  );
  byId("between").querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  byId("between").hidden = false;
  draw();
};
