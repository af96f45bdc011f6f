// Both charts, drawn by Chart.js. Colours come from the style sheet, and are read again when the theme changes.

const TICK = 110;
const PAPER = [330, 210];
const drawn = [];

const colour = (name) => {
  const probe = make("span");
  document.body.append(probe);
  probe.style.color = `var(--${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

const axis = (more) => ({
  grid: { color: colour("line") },
  border: { color: colour("line") },
  ticks: { color: colour("dim"), precision: 0 },
  ...more,
});

const drawClasses = () => {
  const numbers = kinds.map((kind) => report.findings.byClass[kind]);
  const words = kinds.map((kind, at) => `${kind} ${number(numbers[at])}`).join(", ");
  byId("classes").setAttribute("aria-label", `Findings by class: ${words}`);
  return new Chart(byId("classes"), {
    type: "bar",
    data: {
      labels: kinds,
      datasets: [{
        label: "findings",
        data: numbers,
        maxBarThickness: 28,
        backgroundColor: kinds.map((kind) => colour(`kind-${kind}`)),
      }],
    },
    options: {
      indexAxis: "y",
      animation: false,
      maintainAspectRatio: false,
      plugins: { legend: { display: false } },
      scales: {
        x: axis({ beginAtZero: true, ticks: { color: colour("dim"), precision: 0, maxTicksLimit: 6 } }),
        y: axis({ grid: { display: false }, ticks: { color: colour("ink"), autoSkip: false } }),
      },
      onHover: (event, hit) => { event.native.target.style.cursor = hit.length ? "pointer" : ""; },
      onClick: (event, hit) => { if (hit.length) location.hash = link({ class: kinds[hit[0].index] }); },
    },
  });
};

// Evenly chosen times of reports, because reports need not be daily.
const ticks = (times, width) => {
  const apart = Math.max(1, Math.ceil(times.length / Math.max(2, Math.floor(width / TICK))));
  return times.filter((_, at) => (times.length - 1 - at) % apart === 0).map((time) => ({ value: time }));
};

const drawTrend = () => {
  const { trend } = report;
  const last = trend[trend.length - 1];
  const at = (one) => `${moment(one.asOf)}: ${number(one.findings)}`;
  const words = `Findings of ${count(trend.length, "report")}, from ${at(trend[0])}, to ${at(last)}.`;
  byId("trend").setAttribute("aria-label", words);
  const times = trend.map((one) => Date.parse(one.asOf));
  const ever = Object.keys(report.classes).filter((kind) => trend.some((one) => one.byClass[kind]));
  const day = (time) => new Date(time).toISOString().slice(0, 10);
  return new Chart(byId("trend"), {
    type: "line",
    data: {
      datasets: ever.map((kind) => ({
        label: kind,
        data: trend.map((one, at) => ({ x: times[at], y: one.byClass[kind] ?? 0 })),
        fill: "stack",
        borderColor: colour(`kind-${kind}`),
        backgroundColor: colour(`kind-${kind}`).replace(/^rgb\((.*)\)$/, "rgba($1, 0.35)"),
        borderWidth: 1.5,
        pointRadius: trend.length > 60 ? 0 : 2,
      })),
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      plugins: {
        legend: { position: "bottom", labels: { color: colour("ink"), boxWidth: 12, boxHeight: 12 } },
        tooltip: {
          itemSort: (one, next) => next.datasetIndex - one.datasetIndex,
          callbacks: {
            title: (items) => moment(trend[items[0].dataIndex].asOf),
            footer: (items) => {
              const one = trend[items[0].dataIndex];
              return `${number(one.findings)} in total, ${number(one.new)} new, ${number(one.resolved)} resolved`;
            },
          },
        },
      },
      scales: {
        x: axis({
          type: "linear",
          bounds: "data",
          grid: { display: false },
          afterBuildTicks: (scale) => { scale.ticks = ticks(times, scale.chart.width); },
          ticks: { color: colour("dim"), callback: day, maxRotation: 0 },
        }),
        y: axis({ stacked: true, beginAtZero: true }),
      },
    },
  });
};

const drawCharts = () => {
  Chart.defaults.font.size = grid.all ? 8 : 12;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  drawn.splice(0).forEach((chart) => chart.destroy());
  if (report.findings.total) drawn.push(drawClasses());
  if (report.trend.length > 1) drawn.push(drawTrend());
  // Charts that were drawn for a screen do not follow the print layout by themselves.
  if (grid.all) drawn.forEach((chart) => chart.resize(...PAPER));
};

const startCharts = () => {
  const replaceChart = (id, words) => byId(id).parentElement.replaceWith(make("p", { class: "dim" }, words));
  if (!report.findings.total) replaceChart("classes", "There are no findings.");
  if (report.trend.length < 2) {
    replaceChart("trend", "There is no previous report. For a trend, pass this report to the next run with --previous.");
  } else {
    const cells = (one) => [moment(one.asOf), ...[one.findings, one.new, one.resolved].map(number)];
    const rows = report.trend.toReversed().map(cells);
    byId("trend-rows").append(make("details", {}, make("summary", {}, "As a table"),
      make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Trend as a table" },
        table("Reports, newest first", ["As of", "Findings", "New", "Resolved"], rows))));
  }
};
