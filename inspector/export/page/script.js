"use strict";
// The graphs of the page: unpacked when they are looked at, one selection through all panes, search, links.
// Text of a run is only ever set as text.
(() => {
  const ROW = 20, CHUNK = 100, MOST_HITS = 200, SVG = "http://www.w3.org/2000/svg";
  const PRESETS = [
    ["Program → kernels", ["source", "fx-after", "code"]],
    ["FX before | after", ["fx-before", "fx-after"]],
    ["IR before | after", ["ir-before", "ir-after"]],
    ["Fusion", ["lanes", "missed"]],
    ["What merged", ["sides"]],
    ["Kernels", ["kernels", "code"]],
  ];
  const CLASSES = document.body.dataset.classes.split(" ");
  const at = (id) => document.getElementById(id);
  const explorer = at("explorer");
  const packed = new Map([...document.querySelectorAll("script.packed")].map((own) => [own.dataset.graph, own]));
  const unpacked = new Map();
  let graph = null, views = new Map(), preset = 0, panes = [], chosen = null;

  function make(tag, name, text) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  async function unpack(ident) {
    if (!unpacked.has(ident)) {
      const bytes = Uint8Array.from(atob(packed.get(ident).textContent), (char) => char.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(ident, JSON.parse(await new Response(stream).text()));
    }
    return unpacked.get(ident);
  }

  // -- rows

  const count = (view) => (view.lines || view.rows).length;
  const number = (view, row) => (view.lines && view.first !== null ? view.first + row : row + 1);
  const rowText = (view, row) =>
    view.lines ? view.lines[row] : view.rows[row].map((cell) => (Array.isArray(cell) ? cell[0] : cell)).filter(Boolean).join("  ");

  function spans(parent, text, marks) {
    let place = 0;
    for (let i = 0; i < marks.length; i += 3) {
      if (marks[i] > place) parent.append(text.slice(place, marks[i]));
      parent.append(make("span", CLASSES[marks[i + 2]], text.slice(marks[i], marks[i + 1])));
      place = marks[i + 1];
    }
    parent.append(text.slice(place));
  }

  // Brackets and lanes are drawn, so that they join from row to row: the strokes of each sign in a cell of 10 by 20.
  const STROKES = {
    "│": "M5 0V20", "┐": "M0 10H5V20", "┘": "M0 10H5V0", "┤": "M5 0V20M0 10H5", "├": "M5 0V20M5 10H10",
    "╰": "M5 0V6Q5 10 9 10H10", "─": "M0 10H10", "┬": "M0 10H10M5 10V20", "●": "M5 10V20", "█": "", " ": "",
  };
  const drawn = (text) => /[│┐┘┤├╰┬●█]/.test(text) && [...text].every((sign) => sign in STROKES);

  function draw(name, values) {
    const own = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(values)) own.setAttribute(key, value);
    return own;
  }

  function glyph(text, coloured) {
    const own = draw("svg", { class: "glyph", viewBox: `0 0 ${text.length * 10} 20`, preserveAspectRatio: "none", "aria-hidden": "true" });
    own.style.width = `${text.length}ch`;
    [...text].forEach((sign, place) => {
      const group = draw("g", { transform: `translate(${place * 10} 0)`, class: coloured ? `l${place % 6}` : "" });
      if (STROKES[sign]) group.append(draw("path", { d: STROKES[sign], "vector-effect": "non-scaling-stroke" }));
      if (sign === "●") group.append(draw("ellipse", { cx: 5, cy: 10, rx: 4.7, ry: 3.5 }));
      if (sign === "█") group.append(draw("rect", { x: 1, y: 1, width: 8, height: 18 }));
      own.append(group);
    });
    return own;
  }

  function elided(text, width) {
    if (!width || text.length <= width) return text;
    const first = Math.ceil((width - 1) / 2);
    return `${text.slice(0, first)}…${text.slice(text.length - (width - 1 - first))}`;
  }

  function cell(text, column, width) {
    const whole = rowCell(text);
    const own = make("span", `cell${column && column[1] ? " right" : ""}`, elided(whole, width));
    if (own.textContent !== whole) own.title = whole;
    if (drawn(whole)) own.replaceChildren(glyph(whole, column && column[0] === "buffers"));
    if (Array.isArray(text)) own.classList.add(CLASSES[text[1]]);
    if (width) own.style.width = `${width}ch`;
    return own;
  }

  class Pane {
    constructor(view) {
      this.view = view;
      this.on = [];
      this.element = make("section", "pane");
      const head = make("header");
      const title = make("h3", "", view.title);
      title.id = `title-${view.id}`;
      title.title = view.title;
      this.count = make("span", "count");
      head.append(title, this.count);
      this.steps = [["‹", "Previous related row", -1], ["›", "Next related row", 1]].map(([sign, label, way]) => {
        const button = make("button", "next", sign);
        button.type = "button";
        button.hidden = true;
        button.setAttribute("aria-label", `${label}: ${view.name}`);
        button.addEventListener("click", () => this.step(way));
        head.append(button);
        return button;
      });
      this.body = make("div", "body");
      this.body.tabIndex = 0;
      this.body.setAttribute("aria-labelledby", title.id);
      this.element.append(head, this.body);
      if (!view.refs) {
        this.body.setAttribute("role", "region");
        this.body.textContent = [...Array(count(view)).keys()].map((row) => rowText(view, row)).join("\n");
        return;
      }
      this.body.classList.add("listed");
      this.fill();
      this.body.addEventListener("keydown", (event) => this.key(event));
      this.body.addEventListener("click", (event) => {
        const row = event.target.closest(".row");
        if (row && !String(getSelection())) choose(this, Number(row.dataset.row));
      });
    }

    fill() {
      const { view, body } = this;
      const inner = make("div", "inner");
      inner.setAttribute("role", "presentation");
      body.setAttribute("role", "listbox");
      if (view.columns) {
        this.widths = view.columns.map((column, place) =>
          Math.min(view.columns.length > 3 ? 36 : 84, view.rows.reduce((most, row, index) =>
            view.wide.includes(index) || !row[place] ? most : Math.max(most, rowCell(row[place]).length), column[0].length)));
        const head = make("div", "head");
        head.setAttribute("aria-hidden", "true");
        view.columns.forEach((column, place) => this.widths[place] && head.append(cell([column[0], 1], column, this.widths[place])));
        if (view.columns.length) body.append(head);
      } else {
        const longest = view.lines.reduce((most, line) => Math.max(most, line.length), 0);
        inner.style.minWidth = `max(100%, ${Math.min(longest, 4000) + 8}ch)`;
        this.digits = view.first === null ? 0 : String(view.first + count(view)).length;
      }
      body.append(inner);
      this.chunks = [];
      this.watcher = new IntersectionObserver((seen) => {
        for (const entry of seen) if (entry.isIntersecting) this.draw(Number(entry.target.dataset.chunk));
      }, { root: body, rootMargin: "800px 0px" });
      for (let first = 0; first < count(view); first += CHUNK) {
        const chunk = make("div", "chunk");
        chunk.setAttribute("role", "presentation");
        chunk.dataset.chunk = this.chunks.length;
        chunk.style.height = `${Math.min(CHUNK, count(view) - first) * ROW}px`;
        inner.append(chunk);
        this.chunks.push(chunk);
        this.watcher.observe(chunk);
      }
      if (this.chunks.length) this.draw(0);
    }

    draw(chunk) {
      const own = this.chunks[chunk];
      if (own.firstChild) return;
      const last = Math.min((chunk + 1) * CHUNK, count(this.view));
      for (let row = chunk * CHUNK; row < last; row++) own.append(this.row(row));
    }

    row(row) {
      const { view } = this;
      const own = make("div", "row");
      own.setAttribute("role", "option");
      own.id = `${view.id}-${row}`;
      own.dataset.row = row;
      if (view.lines) {
        if (view.first !== null) {
          const digits = make("span", "num", number(view, row));
          digits.style.width = `${this.digits + 3}ch`;
          own.append(digits);
        } else own.classList.add("cells");
        const text = make("span", "text");
        spans(text, view.lines[row], view.marks[row] || []);
        own.append(text);
        if (view.notes[row]) own.append(make("span", "note", view.notes[row]));
      } else {
        own.classList.add("cells");
        const wide = view.wide.includes(row);
        view.rows[row].forEach((text, place) => {
          if (wide ? text.length : this.widths[place]) own.append(cell(text, !wide && view.columns[place], wide ? 0 : this.widths[place]));
        });
      }
      this.mark(own, row);
      return own;
    }

    mark(own, row) {
      const here = chosen && chosen.pane === this && chosen.row === row;
      own.classList.toggle("here", Boolean(here));
      own.classList.toggle("on", this.isOn(row));
      own.setAttribute("aria-selected", String(Boolean(here) || this.isOn(row)));
    }

    isOn(row) {
      for (let i = 0; i < this.on.length; i += 2) if (row >= this.on[i] && row <= this.on[i + 1]) return true;
      return false;
    }

    show(on) {
      this.on = on;
      const rows = on.reduce((sum, end, i) => sum + (i % 2 ? end + 1 : -end), 0);
      this.count.textContent = rows ? `${rows} row${rows > 1 ? "s" : ""}` : "";
      for (const button of this.steps) button.hidden = on.length < 4;
      for (const own of this.body.querySelectorAll(".row")) this.mark(own, Number(own.dataset.row));
    }

    reveal(row, always) {
      if (!this.chunks) return;
      this.draw(Math.floor(row / CHUNK));
      const top = row * ROW, height = this.body.clientHeight - (this.view.columns ? ROW : 0);
      const seen = top >= this.body.scrollTop && top + ROW <= this.body.scrollTop + height;
      if (always || !seen) this.body.scrollTop = Math.max(0, top - height / 3);
    }

    step(way) {
      const middle = (this.body.scrollTop + this.body.clientHeight / 3) / ROW;
      const firsts = this.on.filter((_, i) => i % 2 === 0);
      const next = way > 0 ? firsts.find((row) => row > middle + 1) : firsts.filter((row) => row < middle - 1).pop();
      const target = next ?? (way > 0 ? firsts[0] : firsts[firsts.length - 1]);
      if (target !== undefined) this.reveal(target, true);
    }

    key(event) {
      const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
      const own = chosen && chosen.pane === this ? chosen.row : -1;
      const moves = { ArrowDown: own + 1, j: own + 1, ArrowUp: own - 1, k: own - 1, PageDown: own + page, PageUp: own - page,
        Home: 0, End: count(this.view) - 1, Enter: own, " ": own };
      if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in moves)) return;
      event.preventDefault();
      if (count(this.view)) choose(this, Math.max(0, Math.min(count(this.view) - 1, moves[event.key])));
    }
  }

  const rowCell = (text) => (Array.isArray(text) ? text[0] : text);

  // -- the selection

  function choose(pane, row, quiet) {
    chosen = { pane, row };
    const number = pane.view.refs[row];
    const selection = number >= 0 ? graph.selections[number] : null;
    for (const each of panes) {
      const on = (selection && selection.rows[each.view.id]) || [];
      each.show(on);
      if (each !== pane && on.length) each.reveal(on[0], !on.some((end, i) => i % 2 === 0 && visible(each, end)));
    }
    pane.draw(Math.floor(row / CHUNK));
    pane.body.setAttribute("aria-activedescendant", `${pane.view.id}-${row}`);
    pane.reveal(row);
    tell(pane, row);
    const chain = at("chain");
    chain.replaceChildren();
    if (selection) {
      chain.append(selection.chain.join(" → "));
      if (selection.evidence) chain.append(make("i", "", `  ${selection.evidence}`));
    }
    const link = linkTo(pane.view, row);
    at("here").textContent = decodeURIComponent(link);
    at("here").href = link;
    if (!quiet) history.replaceState(null, "", link);
  }

  const visible = (pane, row) =>
    row * ROW >= pane.body.scrollTop && (row + 1) * ROW <= pane.body.scrollTop + pane.body.clientHeight;

  function tell(pane, row) {
    const own = at("told");
    const told = pane.view.told && pane.view.told.length ? pane.view.told[row] : -1;
    own.hidden = !(told >= 0);
    if (own.hidden) return;
    own.replaceChildren();
    for (const line of graph.told[told]) {
      for (const text of line) own.append(Array.isArray(text) ? make("span", CLASSES[text[1]], text[0]) : text);
      own.append("\n");
    }
  }

  function linkTo(view, row) {
    const line = number(view, row);
    let what = view.id;
    if (what === "code")
      for (const [name, [first, last]] of Object.entries(graph.kernels)) if (line >= first && line <= last) what = name;
    return `#${encodeURIComponent(graph.ident)}/${encodeURIComponent(what)}/${line}`;
  }

  // -- a graph and its panes

  async function open(ident) {
    if (graph && graph.ident === ident) return;
    const data = await unpack(ident);
    data.ident = ident;
    graph = data;
    views = new Map(data.views.map((view) => [view.id, view]));
    explorer.hidden = false;
    at("graph").value = ident;
    arrange(preset);
  }

  function arrange(wanted) {
    preset = wanted;
    chosen = null;
    for (const pane of panes) if (pane.watcher) pane.watcher.disconnect();
    panes = PRESETS[preset][1].filter((id) => views.has(id)).map((id) => new Pane(views.get(id)));
    at("panes").replaceChildren(...panes.map((pane) => pane.element));
    at("panes").style.setProperty("--columns", panes.length);
    at("told").hidden = true;
    at("chain").replaceChildren();
    at("here").textContent = "this place";
    at("here").href = "#code";
    [...at("tabs").children].forEach((tab, place) => {
      tab.setAttribute("aria-selected", String(place === preset));
      tab.tabIndex = place === preset ? 0 : -1;
    });
    for (const pane of panes) if (pane.chunks && pane.view.start) pane.reveal(pane.view.start, true);
  }

  function turn(place, focus) {
    const kept = chosen && chosen.pane.view.refs[chosen.row];
    arrange((place + PRESETS.length) % PRESETS.length);
    if (focus) at("tabs").children[preset].focus();
    if (kept === null || !(kept >= 0)) return;
    for (const pane of panes) {
      const on = graph.selections[kept].rows[pane.view.id];
      if (on) return choose(pane, on[0]);
    }
  }

  // -- links: #graph/kernel/line, #graph/view/line, #graph/

  async function follow() {
    const parts = location.hash.slice(1).split("/");
    if (parts.length < 2) return;
    let words;
    try { words = parts.map(decodeURIComponent); } catch { return; }
    const [ident, what, line] = words;
    if (!packed.has(ident)) return;
    await open(ident);
    at("code").scrollIntoView();
    if (!what) return;
    const kernel = Object.hasOwn(graph.kernels, what) ? graph.kernels[what] : null;
    const id = kernel ? "code" : what;
    const view = views.get(id) || views.get("kernels");
    const place = PRESETS.findIndex(([, ids]) => ids.includes(view.id));
    if (!PRESETS[preset][1].includes(view.id)) arrange(place);
    const pane = panes.find((each) => each.view === view);
    let row = Number(line || (kernel && kernel[0]) || 1) - (view.lines && view.first !== null ? view.first : 1);
    if (!views.has(id)) row = view.rows.findIndex((cells) => cells.some((text) => rowCell(text) === what));
    if (pane && pane.chunks && row >= 0 && row < count(view)) {
      choose(pane, row, true);
      pane.reveal(row, true);
    }
  }

  // -- search

  async function search(words) {
    const results = at("results");
    const wanted = words.trim().toLowerCase();
    const hits = [];
    if (wanted.length > 1) {
      for (const own of document.querySelectorAll("[data-find]")) {
        const text = own.textContent.replace(/\s+/g, " ").trim();
        if (text.toLowerCase().includes(wanted))
          hits.push([`#${(own.closest("[id]") || document.body).id}`, own.querySelector("h3, td").textContent.trim(), excerpt(text, wanted)]);
      }
      for (const ident of packed.keys()) {
        const data = await unpack(ident);
        for (const view of data.views)
          for (let row = 0; row < count(view) && hits.length <= MOST_HITS; row++) {
            const text = rowText(view, row);
            if (text.toLowerCase().includes(wanted))
              hits.push([`#${encodeURIComponent(ident)}/${view.id}/${number(view, row)}`, `${ident} · ${view.name} · ${number(view, row)}`, excerpt(text, wanted)]);
          }
      }
    }
    if (at("search").value !== words) return;
    results.replaceChildren();
    results.hidden = wanted.length < 2;
    const more = hits.length > MOST_HITS ? `the first ${MOST_HITS} places` : `${hits.length} place${hits.length === 1 ? "" : "s"}`;
    results.append(make("p", "dim", `${more} with “${words.trim()}”`));
    for (const [link, where, text] of hits.slice(0, MOST_HITS)) {
      const own = make("a");
      own.href = link;
      own.append(make("span", "", where), make("code", "", text));
      own.addEventListener("click", () => { results.hidden = true; if (location.hash === link) follow(); });
      results.append(own);
    }
  }

  function excerpt(text, wanted) {
    const place = text.toLowerCase().indexOf(wanted);
    const from = Math.max(0, place - 60);
    return `${from ? "…" : ""}${text.slice(from, place + wanted.length + 100).trim()}`;
  }

  // -- wiring

  let later = 0;
  at("search").addEventListener("input", (event) => {
    clearTimeout(later);
    later = setTimeout(() => search(event.target.value), 150);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "Escape") { at("results").hidden = true; if (typing) event.target.blur(); }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); at("search").focus(); }
    if (explorer && !explorer.hidden && event.key >= "1" && event.key <= String(PRESETS.length)) turn(Number(event.key) - 1);
    if (event.key === "y" && !at("copy").hidden) at("copy").click();
  });
  if (!explorer) return;
  PRESETS.forEach(([title], place) => {
    const tab = make("button", "", title);
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", "panes");
    tab.addEventListener("click", () => turn(place));
    tab.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight") turn(preset + 1, true);
      if (event.key === "ArrowLeft") turn(preset - 1, true);
    });
    at("tabs").append(tab);
  });
  at("graph").addEventListener("change", (event) => open(event.target.value));
  at("copy").hidden = !navigator.clipboard;
  at("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(at("here").href);
      at("copy").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(at("here"));
      at("copy").textContent = "Selected: copy it";
    }
    setTimeout(() => { at("copy").textContent = "Copy link"; }, 1500);
  });
  for (const point of document.querySelectorAll("[data-link]"))
    point.addEventListener("click", () => { location.hash = point.dataset.link; });
  window.addEventListener("hashchange", follow);
  if (!("DecompressionStream" in window)) {
    at("panes").textContent = "This browser is too old to unpack the graphs' code.";
    return;
  }
  // The first graph is unpacked when its place is near, unless a link asks for another.
  explorer.hidden = false;
  const near = new IntersectionObserver((seen) => {
    if (!seen.some((entry) => entry.isIntersecting)) return;
    near.disconnect();
    if (!graph && packed.size) open(packed.keys().next().value);
  }, { rootMargin: "600px" });
  near.observe(explorer);
  follow();
})();
