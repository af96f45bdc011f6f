// The commands that repair the selected findings: those of the chosen filters, or of one finding.

const MOST_IDS = 2000; // a command line has a limit, and a person does not read more

const WAYS = {
  plan: ["Change the clusters", "It plans exactly these changes. Then run: topiarist apply --plan plan.json"],
  manifest: ["Change the manifests", "It prints a diff with the values of the clusters. Pipe it to git apply, or add --write."],
  accept: ["Accept the differences", "It adds DriftException documents. Change author, day and reason first."],
};

const OPTIONS = Object.fromEntries(
  ["severity", "class", "field", "cluster", "responsible", "topic", "manifest", "cause", "id"].map((name) => [name, `--${name}`]),
);

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`);

// The folder of this page. A page from a server does not say where its report is.
const folder = () => (location.protocol === "file:" ? decodeURIComponent(location.pathname).replace(/\/[^/]*$/, "") : "report");

// An option takes a name, or a pattern: a name that is a pattern for others too needs the ids of its findings, and so does
// a topic with a name that --topic refuses.
const isOption = (name) => name in OPTIONS && chosen[name] !== "" && !/[*?[\]]/.test(chosen[name])
  && (name !== "topic" || /^[\w.][\w.-]*$/.test(chosen[name]));

// The options that select the rows of the table: the filters themselves, if all of them are options, else the ids.
const selection = (rows) => {
  const names = CHOICES.filter((name) => chosen[name] !== undefined);
  if (!chosen.q.trim() && names.every(isOption)) return names.flatMap((name) => [OPTIONS[name], chosen[name]]);
  return rows.length > MOST_IDS ? null : ["--id", rows.map((row) => row.id).join(",")];
};

const repairCommand = (way, selected) => {
  const words = ["--from", folder(), ...selected].map(quoted);
  const day = (time) => new Date(time).toISOString().slice(0, 10);
  const last = {
    plan: ["--out plan.json"],
    manifest: [],
    accept: [
      `--author "$(id -un)" --until ${day(Date.now() + 30 * 86400_000)}`, `--reason 'report of ${day(report.asOf)}' >>exceptions.yaml`,
    ],
  };
  return [report.repairs[way], ...words, ...last[way]].join(" ");
};

const repairs = (selected) => Object.entries(WAYS).map(([way, [title, words]]) => make(
  "div",
  { "data-way": way },
  make("h3", {}, title), make("p", { class: "dim" }, words), make("p", {}, ...copyable(repairCommand(way, selected))),
));

const canRepair = () => Object.keys(report.repairs).length > 0;

// Commands are made once they are looked at: a list of ids is long.
const showRepairs = (rows) => {
  byId("repair").hidden = !rows.length || !canRepair();
  byId("repair-title").textContent = `Repair ${rows.length === findings.length ? "all" : "these"} ${count(rows.length, "finding")}`;
  if (!byId("repair").open) return;
  const selected = selection(rows);
  byId("commands").replaceChildren(...(selected ? repairs(selected) : [make("p", {}, `A search for more than ${number(MOST_IDS)} `
    + "findings has no command: choose filters in place of the search, or find fewer.")]));
};

const startRepairs = () => byId("repair").addEventListener("toggle", () => showRepairs(grid.rows));
