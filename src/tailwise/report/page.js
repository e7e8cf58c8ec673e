"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = () => innerWidth < 600;

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(["text", "soft", "grid", "page", "shade"].map((k) => [k, style.getPropertyValue("--" + k).trim()]));
  }

  // A copy in which every "color" (or list of them) that names one of the page is that colour.
  function coloured(value, palette, key) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, palette, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, item]) => [k, coloured(item, palette, k)]));
    return /color/.test(key || "") && typeof value === "string" && value[0] === "@" ? palette[value.slice(1)] : value;
  }

  function dressed(figure) {
    const palette = colours();
    const { data, layout } = coloured({ data: figure.data, layout: figure.layout }, palette);
    layout.font = { color: palette.text, family: "system-ui, sans-serif", size: 13, ...layout.font };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.hoverlabel = { bgcolor: palette.shade, bordercolor: palette.soft, font: { color: palette.text }, align: "left", namelength: -1 };
    layout.margin = { l: narrow() ? 44 : 60, r: 12, t: 24, b: 44, ...layout.margin };
    layout.autosize = true;
    if (narrow()) {
      const long = new Set((layout.annotations || []).filter((note) => note.text.length > 34).map((note) => note.y));
      layout.annotations = (layout.annotations || []).filter((note) => note.text !== "tail" || !long.has(note.y));
    }
    for (const key of Object.keys(layout).filter((k) => /^[xy]axis\d*$/.test(k)))
      layout[key] = { gridcolor: palette.grid, zerolinecolor: palette.grid, linecolor: palette.soft, automargin: true, ...layout[key] };
    for (const key of Object.keys(layout).filter((k) => narrow() && /^xaxis/.test(k) && layout[k].nticks))
      layout[key].nticks = Math.ceil(layout[key].nticks / 2);
    for (const trace of data) if (trace.parents) trace.maxdepth = narrow() ? 3 : 5;
    return { data, layout };
  }

  const config = { responsive: true, displayModeBar: false };

  // Buttons that do what clicking into the chart does, for those who have no mouse.
  function drill(chart, figure) {
    const box = document.createElement("nav");
    box.className = "drill";
    box.setAttribute("aria-label", "go through the tree");
    chart.after(box);
    const { parents, values } = figure.data[0];
    const children = figure.names.map(() => []);
    parents.forEach((parent, id) => parent !== "" && children[Number(parent)].push(id));
    children.forEach((list) => list.sort((a, b) => values[b] - values[a]));

    function button(text, id) {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.onclick = () => go(id, true);
      return made;
    }

    function show(id) {
      figure.level = id;
      const here = document.createElement("span");
      here.className = "here";
      here.textContent = figure.names[id];
      const up = parents[id] === "" ? [] : [button("↑ back", Number(parents[id]))];
      box.replaceChildren(...up, here, ...children[id].map((child) => button("↳ " + figure.names[child], child)));
    }

    function go(id, byKey) {
      show(id);
      if (byKey) (box.querySelector("button") || box).focus();
      return Plotly.restyle(chart, { level: [String(id)] }, [0]);
    }

    chart.on("plotly_" + figure.data[0].type + "click", (event) => {
      const next = event.nextLevel;
      if (next !== undefined) show(next === "" ? 0 : Number(next));
    });
    show(0);
  }

  // A slider that shows the traces of one place at a time.
  function slide(chart, figure) {
    const box = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: figure.names.length - 1, value: 0 });
    const said = document.createElement("output");
    box.className = "slide";
    box.append(input, said);
    chart.before(box);

    function show() {
      figure.data.forEach((trace) => { trace.visible = trace.meta === Number(input.value); });
      said.textContent = figure.names[input.value];
      input.setAttribute("aria-valuetext", said.textContent);
    }

    input.oninput = () => { show(); redraw(chart); };
    show();
  }

  function redraw(chart) {
    const { data, layout } = dressed(chart.figure);
    if (chart.figure.level !== undefined) data[0].level = String(chart.figure.level);
    Plotly.react(chart, data, layout, config);
  }

  async function draw() {
    for (const chart of document.querySelectorAll("div.chart")) {
      await new Promise((resolve) => setTimeout(resolve)); // the page is shown, and can be read, in between
      const figure = JSON.parse(chart.nextElementSibling.textContent);
      const { data, layout } = dressed(figure);
      await Plotly.newPlot(chart, data, layout, config);
      if (figure.names.length) (figure.data[0].parents ? drill : slide)(chart, figure);
      chart.figure = figure;
    }
    document.documentElement.dataset.drawn = "yes";
  }

  dark.addEventListener("change", () => {
    for (const chart of document.querySelectorAll("div.chart")) if (chart.figure) redraw(chart);
  });
  draw();
})();
