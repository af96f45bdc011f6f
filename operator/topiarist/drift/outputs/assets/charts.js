// Both charts, drawn as SVG by hand. Lengths are percentages or units of the view box, so that charts follow any width
// and colour theme without a redraw. Both have their numbers as a table.

// A table with a bar in each row.
const startSeverity = () => {
  const { bySeverity: numbers } = report;
  const most = Math.max(1, ...Object.values(numbers));
  const rows = SEVERITIES.map((severity) => {
    const many = numbers[severity] ?? 0;
    const bar = shape("rect", { width: `${(100 * many) / most}%`, height: "100%", rx: 3 });
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, badge(severity)),
      make("td", { class: "many" }, many ? counted(many, { severity }, `${number(many)} ${severity}`) : "0"),
      make("td", { class: "bar" }, shape("svg", { "aria-hidden": "true", class: `bar-${severity}` }, bar)),
    );
  });
  byId("severity").append(make(
    "table",
    { class: "bars" },
    make("caption", { class: "hidden" }, "Findings by severity"),
    make("thead", { class: "hidden" }, make("tr", {}, ...["Severity", "Findings", "Bar"].map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows),
  ));
};

// The least round number that is not below ``many``: the top of the scale.
const roundUp = (many) => {
  const power = 10 ** Math.floor(Math.log10(Math.max(2, many)));
  return [1, 2, 4, 6, 8, 10].map((each) => each * power).find((each) => each >= many);
};

const [WIDE, HIGH] = [1000, 100];

const drawTrend = () => {
  const { trend } = report;
  const times = trend.map((one) => Date.parse(one.asOf));
  const [first, last] = [times[0], times.at(-1)];
  const top = roundUp(Math.max(...trend.map((one) => Math.max(one.findings, one.new))));
  const x = (at) => Math.round(((times[at] - first) / (last - first)) * WIDE);
  const y = (many) => HIGH - (many / top) * HIGH;
  const path = (name) => trend.map((one, at) => `${at ? "L" : "M"}${x(at)} ${y(one[name]).toFixed(1)}`).join("");
  const svg = byId("trend-chart");
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  for (const share of [0, 0.5, 1]) svg.append(shape("path", { class: "rule", d: `M0 ${HIGH * share}H${WIDE}` }));
  svg.append(
    shape("path", { class: "area", d: `${path("findings")}V${HIGH}H0Z` }),
    shape("path", { class: "all", d: path("findings") }),
    shape("path", { class: "fresh", d: path("new") }),
  );
  const words = (one) => `${moment(one.asOf)}: ${count(one.findings, "finding")}, ${number(one.new)} new, ${number(one.resolved)} resolved${one.unknown ? `, ${count(one.unknown, "cluster")} not read` : ""}`;
  const unread = trend.flatMap((one, at) => (one.unknown ? [`M${x(at)} 0v${HIGH / 8}`] : []));
  svg.append(shape("path", { class: "unread", d: unread.join("") }));
  trend.forEach((one, at) => {
    const from = at ? (x(at - 1) + x(at)) / 2 : 0;
    const to = at + 1 < trend.length ? (x(at) + x(at + 1)) / 2 : WIDE;
    svg.append(shape("rect", { class: "spot", x: from, width: to - from, height: HIGH }, shape("title", {}, words(one))));
  });
  byId("trend-words").textContent = `${count(trend.length, "report")}. First: ${words(trend[0])}. Last: ${words(trend.at(-1))}.`;
  byId("trend-scale").append(...[top, top / 2, 0].map((many) => make("span", {}, number(many))));
  const day = (time) => make("span", {}, new Date(time).toISOString().slice(0, 10));
  byId("trend-days").append(day(first), make("span", { class: "legend" }, make("i", { class: "all" }), "all", make("i", { class: "fresh" }), "new",
    ...(unread.length ? [make("i", { class: "unread" }), "a cluster was not read"] : [])), day(last));
};

const startTrend = () => {
  if (report.trend.length < 2) {
    byId("trend").replaceWith(make("p", { class: "dim" },
      "There is no previous report. For a trend, pass this report to the next run with ", make("code", { class: "keys" }, "--previous"), "."));
    return;
  }
  drawTrend();
  const cells = (one) => [moment(one.asOf), ...[one.findings, one.new, one.resolved, one.unknown ?? 0].map(number)];
  const rows = report.trend.toReversed().map(cells);
  byId("trend-rows").append(make("details", {}, make("summary", {}, "As a table"),
    make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Trend as a table" },
      table("Reports, newest first", ["As of", "Findings", "New", "Resolved", "Clusters not read"], rows))));
};
