// What scrolls can be scrolled with the keyboard, and each bar of a code block has a name of its own.
const name_parts = () => {
  document.querySelectorAll("pre, pre > code, .md-typeset__scrollwrap").forEach((part) => { part.tabIndex = 0; });
  document.querySelectorAll("nav.md-code__nav").forEach((bar, index) => { bar.setAttribute("aria-label", `Code block ${index + 1}`); });
};
if (typeof document$ === "undefined") { name_parts(); } else { document$.subscribe(name_parts); }

// Diagrams are text in the pages: their script is loaded only where there are some, and draws them in the colours of the page.
const site_root = new URL("..", document.currentScript.src);
let mermaid_script;
const draw_diagrams = async () => {
  const diagrams = [...document.querySelectorAll("div.diagram")];
  if (diagrams.length === 0) { return; }
  mermaid_script ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    Object.assign(script, { src: new URL("assets/mermaid.min.js", site_root).href, onload: resolve, onerror: reject });
    document.head.append(script);
  });
  await mermaid_script;
  const dark = document.body.dataset.mdColorScheme === "slate";
  mermaid.initialize({
    startOnLoad: false,
    theme: dark ? "dark" : "neutral",
    themeVariables: dark ? { edgeLabelBackground: "#14151a" } : {},
    fontFamily: "inherit",
    flowchart: { useMaxWidth: true, rankSpacing: 36, nodeSpacing: 36, wrappingWidth: 320 },
  });
  for (const diagram of diagrams) {
    diagram.dataset.text ??= diagram.textContent;
    diagram.textContent = diagram.dataset.text;
    delete diagram.dataset.processed;
  }
  await mermaid.run({ nodes: diagrams });
};
new MutationObserver(draw_diagrams).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
if (typeof document$ === "undefined") { draw_diagrams(); } else { document$.subscribe(draw_diagrams); }
