// The chart of brokers: for each broker and each rack its leaders and replicas before and after, as SVG drawn by hand.
// Lengths are percentages, so that bars follow any width and colour theme without a redraw; the numbers are the table.

const loadBar = (before, after, most) => {
  const bar = (name, many, y) => shape("rect", { class: name, width: `${(100 * many) / most}%`, y, height: "42%" });
  return shape("svg", { class: "load", "aria-hidden": "true" }, bar("was", before, "4%"), bar("is", after, "54%"));
};

const fromTo = (before, after) => (before === after ? number(before) : `${number(before)} \u2192 ${number(after)}`);

const signed = (before, after) => (before === after ? "" : ` (${after > before ? "+" : "\u2212"}${number(Math.abs(after - before))})`);

const loadCells = (load, most) => [0, 2].map((at) => make("td", {}, make("div", { class: "measure" },
  make("span", {}, fromTo(load[at], load[at + 1]), make("span", { class: "dim" }, signed(load[at], load[at + 1]))),
  loadBar(load[at], load[at + 1], most[at]))));

// Moves copy replicas to a broker (in) and delete replicas of it (out).
const moveCells = (load, moves) => (moves ? [4, 5].map((at) => make("td", { class: "many" }, load[at] ? number(load[at]) : "")) : []);

const loadTable = (caption, first, list, label) => {
  const most = [0, 1, 2, 3].map((at) => Math.max(1, ...list.map((one) => Math.max(one.load[at], one.load[at ^ 1]))));
  const moves = list.some((one) => one.load[4] || one.load[5]);
  const heads = [first, "Leaders", "Replicas", ...(moves ? ["In", "Out"] : [])];
  const shown = heads.map((head) => make("th", { scope: "col" }, head));
  const body = list.map((one) => make("tr", {}, make("th", { scope: "row" }, ...label(one)),
    ...loadCells(one.load, most), ...moveCells(one.load, moves)));
  return scrolled(caption, make("table", { class: "bars loads" }, make("caption", { class: "hidden" }, caption),
    make("thead", {}, make("tr", {}, ...shown)), make("tbody", {}, ...body)));
};

const rackName = (rack) => (rack === null ? make("span", { class: "dim" }, "no rack") : outside(rack));

const brokerLabel = (one) => [
  one.label, " ", make("span", { class: "dim" }, rackName(one.rack), ...(one.draining ? [one.load[3] ? ", draining" : ", drained"] : [])),
];

const clusterLoads = (cluster) => {
  const name = cluster.name || "the cluster";
  const more = cluster.loads.total - cluster.loads.rows.length;
  return make("div", { class: "panel" },
    make("h3", {}, clusterName(cluster.name)),
    ...(cluster.racks.length > 1 ? [loadTable(`Racks of ${name}`, "Rack", cluster.racks, (one) => [rackName(one.label), " ", make("span", { class: "dim" }, count(one.brokers, "broker"))])] : []),
    loadTable(`Brokers of ${name}`, "Broker", cluster.loads.rows, brokerLabel),
    ...(more ? [make("p", { class: "dim" }, `and ${count(more, "other broker")}`)] : []));
};

const startBrokers = () => {
  const loaded = plan.clusters.rows.filter((one) => one.loads.total);
  if (!loaded.length) return;
  byId("brokers").hidden = false;
  byId("brokers").append(make("div", { class: "pair wide-pair" }, ...loaded.map(clusterLoads)));
};
