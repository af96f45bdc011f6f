// Search, filters and order as one value, which is stored in the page's address.

const chosen = { q: "", sort: "", down: false };

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

const link = (wanted) => {
  const words = new URLSearchParams();
  if (wanted.q) words.set("q", wanted.q);
  for (const name of CHOICES) if (wanted[name] !== undefined) words.set(name, wanted[name]);
  if (wanted.sort) words.set("sort", (wanted.down ? "-" : "") + wanted.sort);
  return `#${words}`;
};

const choose = (hash) => {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const sort = words.get("sort") ?? "";
  chosen.q = words.get("q") ?? "";
  chosen.down = sort.startsWith("-");
  chosen.sort = sort.replace("-", "") in ORDERS ? sort.replace("-", "") : "";
  for (const name of CHOICES) {
    if (words.has(name)) chosen[name] = words.get(name);
    else delete chosen[name];
  }
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

// All rows in the chosen order, cached, so that a search only has to filter them.
let inOrder = bySeverity;
let order = "";

const sorted = () => {
  const wanted = (chosen.down ? "-" : "") + chosen.sort;
  if (wanted === order) return inOrder;
  order = wanted;
  if (!chosen.sort) return (inOrder = bySeverity);
  const sign = chosen.down ? -1 : 1;
  const keys = findings.map(ORDERS[chosen.sort]);
  inOrder = [...findings].sort((one, other) => {
    const [left, right] = [keys[one.at], keys[other.at]];
    return left < right ? -sign : left > right ? sign : one.at - other.at;
  });
  return inOrder;
};

const matching = (wanted, rows = sorted()) => {
  const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
  const choices = CHOICES.filter((name) => wanted[name] !== undefined);
  return rows.filter((row) => choices.every((name) => row[name] === wanted[name])
    && words.every((word) => row.searched.includes(word)));
};

// The rows of the chosen view. A longer search has no row that a shorter one lacks: each key searches the rows of the
// key before it, and Backspace has its rows already.
const searches = [];
let searched = null;

const inView = () => {
  const view = link({ ...chosen, q: "" });
  const q = chosen.q.toLowerCase();
  if (view !== searched) searches.length = 0;
  searched = view;
  while (searches.length && !q.startsWith(searches.at(-1).q)) searches.pop();
  const before = searches.at(-1);
  if (before?.q !== q) searches.push({ q, rows: matching(chosen, before?.rows) });
  return searches.at(-1).rows;
};

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
