// The data of the page: the plan, and its rows as objects. A number is the index of a text that was written before.

const plan = JSON.parse(document.getElementById("plan-data").textContent);

const LEVELS = Object.keys(plan.levels);
const CHOICES = ["level", "kind", "cluster"];
const SEARCHED = ["cluster", "topic", "kind", "level", "summary", "reason", "code", "fix", "place", "cause", "record"];

const rows = (() => {
  const texts = [];
  const whole = (value) => {
    if (typeof value === "number") return texts[value];
    if (typeof value === "string") texts.push(value);
    return Array.isArray(value) ? value.map(whole) : value;
  };
  return JSON.parse(document.getElementById("rows-data").textContent).map((short, at) => {
    const row = { at };
    plan.columns.forEach((name, column) => { row[name] = whole(short[column]); });
    const keys = row.config.map(([key]) => key);
    row.searched = [...SEARCHED.map((name) => row[name]), ...row.before, ...row.after, ...keys].join("\n").toLowerCase();
    return row;
  });
})();
