// Search, filters and order as one value, which is stored in the page's address. SUBJECT, CHOICES and ORDERS say what is
// shown, and by what it is filtered and ordered.

const chosen = { q: "", sort: "", down: false };

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

// All rows in the chosen order, cached, so that a search only has to filter them.
let inOrder = SUBJECT.inOrder;
let order = "";

const sorted = () => {
  const wanted = (chosen.down ? "-" : "") + chosen.sort;
  if (wanted === order) return inOrder;
  order = wanted;
  if (!chosen.sort) return (inOrder = SUBJECT.inOrder);
  const sign = chosen.down ? -1 : 1;
  const keys = SUBJECT.rows.map(ORDERS[chosen.sort]);
  inOrder = [...SUBJECT.rows].sort((one, other) => {
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
