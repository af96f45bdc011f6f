// What scrolls can be scrolled with the keyboard, and each bar of a code block has a name of its own.
const name_parts = () => {
  document.querySelectorAll("pre, pre > code, .md-typeset__scrollwrap").forEach((part) => { part.tabIndex = 0; });
  document.querySelectorAll("nav.md-code__nav").forEach((bar, index) => { bar.setAttribute("aria-label", `Code block ${index + 1}`); });
};
if (typeof document$ === "undefined") { name_parts(); } else { document$.subscribe(name_parts); }
