// What the page says beside its table: totals, warnings, permissions, clusters.

const LEVEL_WORDS = {
  DataLoss: "may lose data", Refused: "asked for, and will not be made", Disruptive: "may disturb clients", Safe: "without risk",
  Notice: "information",
};

const inside = (wanted, text) => make("a", { href: link({ q: "", sort: "", ...wanted }) }, text);

const startAbout = () => byId("about").append(outside(plan.title));

const startTotals = () => {
  for (const level of LEVELS.slice(0, 3)) {
    const many = plan.levels[level];
    byId("urgent").append(make("div", { class: "panel" },
      make("dt", {}, badge(level)),
      make("dd", { class: "big" }, many ? inside({ level }, number(many)) : "0"),
      make("dd", { class: "dim" }, LEVEL_WORDS[level])));
  }
  for (const level of LEVELS.slice(3)) {
    byId("totals").append(make("div", {}, make("dt", {}, level), make("dd", {}, plan.levels[level] ? inside({ level }, number(plan.levels[level])) : "0")));
  }
  for (const [kind, many] of Object.entries(plan.kindCounts)) {
    byId("totals").append(make("div", {}, make("dt", {}, kind), make("dd", {}, inside({ kind }, number(many)))));
  }
};

const rest = (list) => (list.total > list.rows.length ? [make("li", {}, `and ${number(list.total - list.rows.length)} more`)] : []);

const note = (title, list) => {
  if (!list.total) return [];
  return [make("div", { class: "note" }, make("h2", {}, title),
    make("ul", {}, ...list.rows.map((each) => make("li", {}, ...[each].flat())), ...rest(list)))];
};

// The texts of all clusters, each with the name of its cluster if there are several; equal texts once.
const perCluster = (name) => {
  const found = new Map();
  let total = 0;
  for (const cluster of plan.clusters.rows) {
    const list = typeof cluster[name] === "string" ? { total: Number(cluster[name] !== ""), rows: [cluster[name]] } : cluster[name];
    total += list.total;
    for (const text of cluster[name] === "" ? [] : list.rows) found.set(text, [...(found.get(text) ?? []), cluster.name]);
  }
  const shown = [...found].map(([text, names]) => {
    const labels = names.slice(0, 8).flatMap((each, at) => [at ? ", " : "", clusterName(each)]);
    const more = names.length > 8 ? ` and ${number(names.length - 8)} more` : "";
    return several ? [...labels, `${more}: `, outside(text)] : outside(text);
  });
  const hidden = total - [...found.values()].reduce((sum, names) => sum + names.length, 0);
  return { total: shown.length + hidden, rows: shown };
};

const startNotes = () => {
  const failed = { total: plan.failed.total, rows: plan.failed.rows.map(clusterName) };
  byId("gaps").append(
    ...note("Not planned: see the log of the run", failed),
    ...note("Write block", perCluster("writeBlock")),
    ...note("Held back by a limit", perCluster("exceeded")),
    ...note("Warnings", perCluster("warnings")),
    ...note("Limits of groups", perCluster("limits")),
    ...note("Moves", perCluster("pace")),
  );
};

const startPermissions = () => {
  if (!plan.permissions.total) return;
  byId("permissions").hidden = false;
  const cells = plan.permissions.rows.map((one) => [
    ...(several ? [clusterName(one.cluster)] : []), outside(one.needed),
    make("div", {}, ...(one.option ? [make("div", {}, ...copyable(one.option))] : []), make("div", {}, outside(one.where))),
  ]);
  const heads = [...(several ? ["Cluster"] : []), "For", "Needed"];
  byId("permissions").append(
    make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Table of permissions" }, cards("Permissions", heads, cells)),
    make("ul", {}, ...rest(plan.permissions)),
  );
};

const startClusters = () => {
  if (!plan.clusters.total) return;
  byId("clusters").hidden = false;
  const cells = plan.clusters.rows.map((one) => [
    make("div", {}, inside({ cluster: one.name }, clusterName(one.name)), make("div", { class: "dim" }, outside(one.id))),
    outside(one.summary), one.risk ? badge(one.risk) : make("span", { class: "dim" }, "none"), outside(one.brokers),
    one.orphans.total ? make("details", {}, make("summary", {}, count(one.orphans.total, "topic")),
      make("ul", {}, ...one.orphans.rows.map((name) => make("li", {}, outside(name))), ...rest(one.orphans))) : "none",
  ]);
  const heads = ["Cluster", "Topics", "Highest risk", "Brokers", "Not in the given paths"];
  byId("clusters").append(
    make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Table of clusters" }, cards("Clusters", heads, cells)),
    make("ul", {}, ...rest(plan.clusters)),
  );
};
