"use strict";
/* The page: what the server tells, drawn. A subject's panel says what there is to see; nothing here knows a kind of subject. */

const SPANS = [["1 min", 60], ["5 min", 300], ["30 min", 1800], ["all", Infinity]];
const THEMES = ["system", "light", "dark"];
const LONG = 48; // letters, from which on a cell may have several lines
const $ = (id) => document.getElementById(id);
const subjects = new Map();
const view = { chosen: null, acts: false, span: 300, charts: [], drawn: "", theme: kept("theme") || "system" };

function kept(key, value) {
  try {
    if (value !== undefined) localStorage.setItem(`skytide-${key}`, value);
    return localStorage.getItem(`skytide-${key}`);
  } catch {
    return null;
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/* What the server tells */

function heard(kind, content) {
  if (kind === "all") {
    view.acts = content.acts;
    subjects.clear();
    for (const subject of content.subjects) subjects.set(subject.id, subject);
  } else {
    const known = subjects.get(content.id);
    subjects.set(content.id, { ...content, trail: content.trail || grown(known ? known.trail : { t: [] }, content.point) });
  }
  arrived();
}

const hearer = {
  opened: () => arrived(),
  heard,
  lost: () => link("lost", "connection lost, trying again …"),
  refused: () => {
    link("lost", "needs its token");
    put($("empty"), "This page needs its token: open the whole address that was printed when it was started.");
  },
};

function grown(trail, point) {
  if (!point) return trail;
  const length = trail.t.length;
  for (const name of new Set([...Object.keys(trail), ...Object.keys(point)])) {
    trail[name] ||= Array(length).fill(null);
    trail[name].push(point[name] ?? null);
  }
  return trail;
}

function link(kind, text) {
  $("link").className = kind;
  put($("link"), text);
}

let due = false;
function arrived() {
  const over = [...subjects.values()].every((subject) => subject.over);
  link("live", over && subjects.size ? "connected" : "live");
  soon();
}

function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

/* What is shown */

function draw() {
  const all = [...subjects.values()];
  if (!subjects.has(view.chosen)) view.chosen = all.length ? (all.find((each) => each.id === decodeURIComponent(location.hash.slice(2))) || all[0]).id : null;
  drawNav(all);
  const subject = subjects.get(view.chosen);
  $("empty").hidden = Boolean(subject && subject.verdict);
  $("subject").hidden = !(subject && subject.verdict);
  if (!subject || !subject.verdict) return;
  document.title = `${subject.verdict.text}: ${subject.name} · skytide`;
  put($("name"), subject.name);
  put($("about"), subject.about);
  drawVerdict(subject.verdict);
  drawActions(subject);
  drawTiles(subject.tiles);
  drawCharts(subject);
  drawTables(subject.tables);
  drawBars(subject.bars);
  $("scatter").hidden = !subject.scatter;
  if (subject.scatter) drawScatter($("scatter"), subject.scatter);
}

function drawNav(all) {
  const list = $("nav").firstElementChild;
  $("nav").hidden = all.length < 2;
  while (list.children.length > all.length) list.lastElementChild.remove();
  all.forEach((subject, at) => {
    let item = list.children[at];
    if (!item) {
      item = made("li");
      const anchor = made("a");
      anchor.append(made("span"), made("small"), made("span", "skip"));
      item.append(anchor);
      list.append(item);
    }
    const anchor = item.firstElementChild;
    anchor.href = `#/${encodeURIComponent(subject.id)}`;
    anchor.dataset.level = subject.verdict ? subject.verdict.level : "quiet";
    put(anchor.children[0], subject.name);
    put(anchor.children[1], subject.kind);
    put(anchor.children[2], subject.verdict ? subject.verdict.text : "");
    if (subject.id === view.chosen) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  });
}

function drawVerdict(verdict) {
  const place = $("verdict");
  place.dataset.level = verdict.level;
  put(place.firstElementChild, verdict.text);
  put(place.lastElementChild, verdict.more);
}

function drawActions(subject) {
  const wanted = view.acts && !subject.over ? subject.actions : [];
  const place = $("actions"), id = JSON.stringify([subject.id, wanted]);
  if (place.dataset.drawn === id) return;
  place.dataset.drawn = id;
  place.replaceChildren(...wanted.map((action) => {
    const button = made("button", "", action[0].toUpperCase() + action.slice(1));
    button.type = "button";
    button.addEventListener("click", async () => {
      button.disabled = true;
      const answer = await fetch(`/act/${encodeURIComponent(subject.id)}/${action}`, { method: "POST", headers: headers() }).catch(() => null);
      if (!answer || !answer.ok) link("lost", answer ? `${action}: ${await answer.text()}` : `${action}: no answer`);
      button.disabled = false;
    });
    return button;
  }));
}

function drawTiles(tiles) {
  const place = $("tiles");
  while (place.children.length > tiles.length) place.lastElementChild.remove();
  tiles.forEach((tile, at) => {
    let box = place.children[at];
    if (!box) {
      box = made("div", "tile");
      const bar = made("div", "bar");
      bar.append(made("i"));
      box.append(made("dt"), made("dd", "value"), made("dd", "note"), bar);
      place.append(box);
    }
    const [label, value, note, bar] = box.children;
    box.dataset.level = tile.level;
    put(label, tile.label);
    put(value, tile.value);
    put(note, tile.note);
    bar.hidden = tile.share === null;
    bar.firstElementChild.style.width = `${100 * (tile.share || 0)}%`;
  });
}

function drawCharts(subject) {
  const id = JSON.stringify([subject.id, subject.charts]);
  if (view.drawn !== id) {
    for (const chart of view.charts) chart.end();
    view.charts = subject.charts.map((about) => new Chart($("charts"), about));
    $("charts").append($("bars"));
    view.drawn = id;
  }
  for (const chart of view.charts) chart.draw(subject.trail, view.span, chart.about.marked ? subject.marks : []);
}

function drawTables(tables) {
  const place = $("tables");
  while (place.children.length > tables.length) place.lastElementChild.remove();
  tables.forEach((content, at) => {
    const text = JSON.stringify(content), known = place.children[at];
    if (known && known.dataset.drawn === text) return;
    const card = made("section", "card"), scroll = made("div", "scroll"), table = made("table"), head = made("tr"), body = made("tbody");
    card.dataset.drawn = text;
    const numbers = content.columns.map((_, column) => content.rows.length > 0 && column > 0 && content.rows.every((row) => /^[–\-\d][^:]*$/.test(row[column]) && row[column].length < 14));
    content.columns.forEach((name, column) => {
      const cell = made("th", numbers[column] ? "number" : "", name);
      cell.scope = "col";
      head.append(cell);
    });
    for (const row of content.rows) {
      const line = made("tr");
      row.forEach((value, column) => {
        const cell = made("td", numbers[column] ? "number" : "");
        cell.append(value.length > LONG ? made("div", "long", value) : value);
        line.append(cell);
      });
      body.append(line);
    }
    const top = made("thead");
    top.append(head);
    table.append(top, body);
    scroll.append(table);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", content.title);
    card.append(made("h3", "", content.title), content.rows.length ? scroll : made("p", "quiet", content.empty));
    if (known) known.replaceWith(card);
    else place.append(card);
  });
}

function drawBars(content) {
  const place = $("bars");
  place.hidden = !content;
  if (!content) return;
  const list = made("ul");
  list.tabIndex = 0;
  for (const bar of content.bars) {
    const item = made("li"), track = made("div", "bar"), fill = made("i");
    fill.style.width = `${100 * bar.share}%`;
    item.dataset.level = bar.level;
    track.append(fill);
    item.append(made("span", "", bar.label), track, made("span", "", bar.value));
    list.append(item);
  }
  place.replaceChildren(made("h3", "", content.title), list);
}

/* What people choose */

function setTheme(theme) {
  view.theme = theme;
  kept("theme", theme);
  const dark = theme === "dark" || (theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const says = { system: "as the system has them", light: "light", dark: "dark" }[theme];
  $("theme").setAttribute("aria-label", `Colours: ${says}`);
  $("theme").title = `Colours: ${says}`;
  put($("theme"), { system: "◐", light: "☀", dark: "☾" }[theme]);
  for (const chart of view.charts) chart.restyle();
}

for (const [text, seconds] of SPANS) {
  const button = made("button", "", text);
  button.type = "button";
  button.setAttribute("aria-pressed", String(seconds === view.span));
  button.addEventListener("click", () => {
    view.span = seconds;
    for (const other of $("spans").children) other.setAttribute("aria-pressed", String(other === button));
    soon();
  });
  $("spans").append(button);
}
$("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(view.theme) + 1) % THEMES.length]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(view.theme));
addEventListener("hashchange", () => {
  if (takeToken()) return listen(hearer);
  const wanted = decodeURIComponent(location.hash.slice(2));
  if (!subjects.has(wanted)) return;
  view.chosen = wanted;
  soon();
});
setTheme(view.theme);
takeToken();
listen(hearer);
