"use strict";

// Elements. Text is only ever set as text: names come from requests.
const $ = (id) => document.getElementById(id);
// A mark that turns the direction around, or is not seen, would make one name look like another.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/g;
const seen = (text) => typeof text === "string" ? text.replace(HIDDEN, "\ufffd") : text;
const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : seen(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(seen));
  return element;
};
const h = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const s = (name, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const put = (element, text) => { if (element.textContent !== seen(text)) element.textContent = seen(text); };

// Numbers.
const NONE = "–";
const count = (n) => n === null || n === undefined ? NONE : n >= 1e6 ? (n / 1e6).toFixed(1) + " M" : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : String(Math.round(n));
const rate = (n) => n >= 100 ? count(n) : n >= 10 ? n.toFixed(1) : n === 0 ? "0" : n.toFixed(2);
const time = (ms) => ms === null || ms === undefined ? NONE : ms >= 9999.5 ? (ms / 1e3).toFixed(1) + " s" : ms >= 999.5 ? (ms / 1e3).toFixed(2) + " s" : ms >= 99.5 ? ms.toFixed(0) + " ms" : ms >= 9.95 ? ms.toFixed(1) + " ms" : ms.toFixed(2) + " ms";
const bytes = (n) => n >= 1 << 30 ? (n / (1 << 30)).toFixed(1) + " GiB" : n >= 1 << 20 ? (n / (1 << 20)).toFixed(1) + " MiB" : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
const share = (part, whole) => whole ? (part === 0 ? "0 %" : (100 * part / whole).toFixed(part / whole < 0.1 ? 1 : 0) + " %") : NONE;
const spell = (seconds) => seconds >= 172800 ? Math.floor(seconds / 86400) + " d" : seconds >= 7200 ? Math.floor(seconds / 3600) + " h" : seconds >= 120 ? Math.floor(seconds / 60) + " min" : Math.max(0, Math.floor(seconds)) + " s";
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const day = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";

// Rows of a table by key, so that what has the focus stays where it is.
function rows(body, items, key, make, update) {
  const known = new Map([...body.children].map((row) => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const name = String(key(item));
    let row = known.get(name);
    if (row) known.delete(name);
    else { row = make(item); row.dataset.key = name; }
    update(row, item);
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] || null);
  });
  known.forEach((row) => row.remove());
}
function table(element, columns, empty) {
  const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.class }, column.title)));
  const body = h("tbody");
  const nothing = h("caption", { class: "empty" }, empty);
  element.replaceChildren(nothing, h("thead", {}, head), body);
  return { head, body, show: (items, key, make, update) => {
    nothing.hidden = items.length > 0;
    rows(body, items, key, make, update);
  } };
}
const cells = (columns, header) => (item) => h("tr", {}, columns.map((column) => h("td", { class: column.class }, column.make ? column.make(item) : "")));
const refresh = (columns) => (row, item) => columns.forEach((column, index) => column.update(row.children[index], item));

// The state of this page; bounded, whatever comes.
const state = { status: null, span: "minute", sort: "requests", view: "recent", route: "", id: null, boot: null };
const pressed = (group, name) => [...group.children].forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.name === name)));
function choice(id, words, chosen, choose) {
  const group = $(id);
  group.replaceChildren(...words.map((word) => h("button", { type: "button", "data-name": word, onclick: () => { pressed(group, word); choose(word); } }, word)));
  pressed(group, chosen);
}

// Charts.
const WIDTH = 600, HEIGHT = 150;
function line(points, value, top, width, height) {
  let path = "", pen = "M";
  points.forEach((point, index) => {
    const y = value(point);
    if (y === null || y === undefined) { pen = "M"; return; }
    path += pen + (points.length > 1 ? index / (points.length - 1) * width : 0).toFixed(1) + " " + (height - y / top * (height - 4) - 1).toFixed(1);
    // A point between gaps would not be seen.
    if (pen === "M") path += "h.1";
    pen = "L";
  });
  return path;
}
const nice = (most) => { if (!(most > 0)) return 1; const ten = 10 ** Math.floor(Math.log10(most)); return [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= most); };
function chart(id, title, lines, format) {
  const figure = $(id);
  const legend = lines.map(({ name, class: kind }) => h("span", {}, s("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, s("path", { class: kind, d: "M0 4H22" })), h("span", { "data-of": name }, name)));
  const paths = lines.map(({ class: kind }) => s("path", { class: kind }));
  const area = s("path", { class: "area" });
  const label = s("title", {}, title);
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, label,
    [0.5, 1].map((at) => s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT - at * (HEIGHT - 4) - 1, y2: HEIGHT - at * (HEIGHT - 4) - 1 })),
    s("line", { class: "grid", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }), area, paths);
  const top = h("span", { class: "quiet" }), from = h("span");
  figure.replaceChildren(h("figcaption", {}, legend, h("span", {}, "top ", top)), svg, h("div", { class: "ends" }, from, h("span", {}, "now")));
  return (points, span) => {
    const most = nice(Math.max(...points.map((point) => Math.max(...lines.map(({ value }) => value(point) || 0)))));
    lines.forEach(({ value }, index) => paths[index].setAttribute("d", line(points, value, most, WIDTH, HEIGHT)));
    area.setAttribute("d", lines[0].area ? line(points, (point) => value0(lines[0], point), most, WIDTH, HEIGHT) + `L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z` : "");
    put(top, format(most));
    put(from, span === "hour" ? "an hour ago" : "a minute ago");
    put(label, `${title}, ${span}: highest ${format(most)}`);
  };
}
const value0 = (first, point) => first.value(point) || 0;
const drawTraffic = chart("traffic", "requests a second", [
  { name: "requests/s", class: "requests", area: true, value: (p) => p[0] }, { name: "errors/s", class: "failed", value: (p) => p[1] }], rate);
const drawLatency = chart("latency", "latency", [
  { name: "p50", class: "p50", value: (p) => p[2] }, { name: "p95", class: "p95", value: (p) => p[3] }, { name: "p99", class: "p99", value: (p) => p[4] }], time);
choice("span", ["minute", "hour"], state.span, (span) => { state.span = span; if (state.status) charts(state.status); });
function charts(status) {
  drawTraffic(status[state.span], state.span);
  drawLatency(status[state.span], state.span);
}

// What one sees first.
const tiles = [
  ["Requests", (now) => [rate(now.requests), "/s"], 0, "requests"],
  ["Errors", (now) => [rate(now.failed), "/s"], 1, "failed"],
  ["p50", (now) => [time(now.p50), ""], 2, "p50"],
  ["p95", (now) => [time(now.p95), ""], 3, "p95"],
  ["p99", (now) => [time(now.p99), ""], 4, "p99"],
].map(([title, value, index, kind]) => {
  const big = h("span", { "data-tile": title }), unit = h("small"), path = s("path", { class: kind });
  const tile = h("div", { class: "tile" }, h("h2", {}, title), h("p", {}, big, " ", unit),
    s("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, path));
  $("tiles").append(tile);
  return (status) => {
    const [text, after] = value(status.now);
    put(big, text);
    put(unit, index === 1 && status.now.requests > 0 ? after + " · " + share(status.now.failed, status.now.requests) : after);
    tile.classList.toggle("bad", index === 1 && status.now.failed > 0);
    const points = status.minute;
    path.setAttribute("d", line(points, (point) => point[index], Math.max(...points.map((point) => point[index] || 0)) || 1, 100, 24));
  };
});

// Routes.
const number = (title, key, format, more) => ({ title, key, class: "n" + (more ? " less" : ""), update: (cell, item) => put(cell, format(item[key])) });
const failures = (cell, part, whole) => { put(cell, part ? `${count(part)} · ${share(part, whole)}` : "0"); cell.classList.toggle("bad", part > 0); };
const routeColumns = [
  { title: "route", class: "name", make: (route) => h("button", { type: "button", class: "link", title: "show its slowest request", onclick: () => open(route.number, "slowest") }, route.name || "no endpoint"), update: () => {} },
  number("requests", "requests", count),
  { title: "errors", key: "failed", class: "n", update: (cell, route) => failures(cell, route.failed, route.requests) },
  number("p50", "p50", time, true), number("p95", "p95", time), number("p99", "p99", time, true),
  number("since start", "all", count, true),
];
const routes = table($("routes"), routeColumns, "No request has been served yet.");
[...routes.head.children].forEach((cell, index) => {
  const { key, title } = routeColumns[index];
  if (!key) return;
  cell.replaceChildren(h("button", { type: "button", onclick: () => { state.sort = key; if (state.status) showRoutes(state.status); } }, title));
});
function showRoutes(status) {
  [...routes.head.children].forEach((cell, index) => {
    if (routeColumns[index].key === state.sort) cell.setAttribute("aria-sort", "descending");
    else cell.removeAttribute("aria-sort");
  });
  const sorted = [...status.routes].sort((a, b) => (b[state.sort] || 0) - (a[state.sort] || 0) || b.all - a.all);
  routes.show(sorted, (route) => route.number, cells(routeColumns), refresh(routeColumns));
  put($("routes-note"), status.routes_in_all > status.routes.length ? `last minute; ${status.routes.length} of ${status.routes_in_all}` : "last minute");
}

// Upstreams and their servers.
const sign = { "up": "●", "breaker open": "◐", "ejected": "◌", "down": "○" };
const upstreamColumns = [
  { title: "upstream or database, server", class: "name", update: (cell, item) => put(cell, item.name || item.address) },
  { title: "state", update: (cell, item) => {
    const up = item.servers ? item.servers.filter((server) => server.up).length : 0;
    put(cell, item.servers ? `${up} of ${item.servers_in_all} up` : `${sign[item.state] || ""} ${item.state}${item.ejected_for ? `, ${spell(Math.ceil(item.ejected_for))} left` : ""}`);
    cell.className = "state" + ((item.servers ? up < item.servers_in_all : !item.up) ? " bad" : "");
  } },
  { title: "calls", class: "n", update: (cell, item) => put(cell, count(item.servers ? item.lately : item.calls || 0)) },
  { title: "in flight", class: "n less", update: (cell, item) => put(cell, item.servers ? count(item.in_flight) : "") },
  { title: "failed", class: "n", update: (cell, item) => {
    put(cell, item.servers ? "" : count(item.failed || 0));
    cell.classList.toggle("bad", !item.servers && item.failed > 0);
  } },
  { title: "p50", class: "n less", update: (cell, item) => put(cell, item.servers ? "" : time(item.p50)) },
  { title: "p95", class: "n", update: (cell, item) => put(cell, item.servers ? "" : time(item.p95)) },
  { title: "what happened", class: "less", update: (cell, item) => {
    const parts = item.servers ? [[item.retries, "retries"], [item.withheld, "not retried: budget"], [item.refused, "refused by breaker"], [item.queued, "waited"], [item.waiting, "wait for a connection"], [item.turned_away, "turned away"]]
      : [[item.opened, "breaker opened"], [item.ejected, "ejected"], [item.checks_failed, "checks failed"], [item.connect_failures, "connections failed"], [item.tls_failures, "TLS failed"], [item.dns_failures, "lookups failed"]];
    const told = parts.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`);
    if (item.last_failure) told.unshift(`${item.last_failure.what} ${spell(item.last_failure.ago)} ago`);
    put(cell, told.join(" · "));
  } },
];
const upstreams = table($("upstreams"), upstreamColumns, "There are no upstreams and no databases.");
function showUpstreams(status) {
  const flat = [...status.upstreams, ...status.databases].flatMap((upstream) => [upstream, ...upstream.servers.map((server) => ({ ...server, of: upstream.name }))]);
  upstreams.show(flat, (item) => item.servers ? "u" + item.name : `s${item.of} ${item.address}`, (item) => {
    const row = cells(upstreamColumns)(item);
    row.className = item.servers ? "group" : "server";
    return row;
  }, refresh(upstreamColumns));
}

// Requests.
const statusText = (request) => request.ended === "whole" ? String(request.status) : `${request.status} ${request.ended}`;
const listColumns = [
  { title: "when", class: "n", update: (cell, request) => put(cell, clock(request.at)) },
  { title: "request", class: "name", make: (request) => h("button", { type: "button", class: "link", onclick: () => show(request.id) }, `${request.method} ${request.path || request.route}`), update: () => {} },
  { title: "status", update: (cell, request) => { put(cell, statusText(request)); cell.className = request.failed ? "bad" : ""; } },
  { title: "calls", class: "n less", update: (cell, request) => put(cell, count(request.calls)) },
  { title: "time", class: "n", update: (cell, request) => put(cell, time(request.total)) },
];
const list = table($("list"), listColumns, "None is kept.");
choice("view", ["recent", "slowest", "failed"], state.view, (view) => { state.view = view; load(); });
let asked = 0, first = false;
// With `opens`, the first request of the list is shown. The page may ask again before the answer comes; then the later answer counts.
async function load(opens) {
  const turn = ++asked;
  first ||= Boolean(opens);
  const response = await fetch(`/requests?view=${state.view}&route=${state.route}`).catch(() => null);
  if (!response || !response.ok || turn !== asked) return;
  const { requests } = await response.json();
  if (turn !== asked) return;
  list.show(requests, (request) => request.id, cells(listColumns), (row, request) => {
    refresh(listColumns)(row, request);
    if (request.id === state.id) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
  });
  if (!first) return;
  first = false;
  if (requests.length) show(requests[0].id);
  else $("detail").replaceChildren(h("p", { class: "empty" }, "No request of this route is kept."));
}
function narrow(route) {
  state.route = route === null ? "" : String(route);
  const known = state.status && state.status.routes.find((one) => String(one.number) === state.route);
  $("filter").replaceChildren(...(state.route === "" ? [] : [h("button", { type: "button", onclick: () => { narrow(null); load(); } }, `${known ? known.name || "no endpoint" : "one route"}  ×`)]));
}
function open(route, view) {
  narrow(route);
  state.view = view;
  pressed($("view"), view);
  load(true);
  $("requests").scrollIntoView({ block: "start" });
  $("requests").focus({ preventScroll: true });
}
async function show(id) {
  first = false;
  state.id = id;
  for (const row of list.body.children) { if (row.dataset.key === id) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current"); }
  const response = await fetch("/requests/" + encodeURIComponent(id)).catch(() => null);
  if (state.id !== id) return;
  if (!response || !response.ok) {
    const told = response ? (await response.json().catch(() => ({}))).detail : "the gateway does not answer";
    return $("detail").replaceChildren(h("p", { class: "empty" }, told || "not found"));
  }
  draw(await response.json());
}
$("search").addEventListener("submit", (event) => { event.preventDefault(); const id = $("id").value.trim(); if (id) show(id); });
document.addEventListener("keydown", (event) => { if (event.key === "/" && !/INPUT/.test(document.activeElement.tagName)) { event.preventDefault(); $("id").focus(); } });

// The waterfall of a request.
function draw(request) {
  const made = request.made, marks = request.marks;
  const end = Math.max(request.total, ...made.map((call) => call.ended || 0), 0.001);
  const x = (at) => (100 * at / end).toFixed(3) + "%";
  const row = (kind, what, title, shapes, how, bad) => h("div", { class: "bar-row " + kind, title }, h("span", { class: "what" }, what), s("svg", { "aria-hidden": "true" }, shapes), h("span", { class: "how" + (bad ? " bad" : "") }, how));
  const wide = (from, to, kind, height) => { const rect = s("rect", { class: kind, x: x(from), y: (14 - height) / 2, height, rx: 1 }); rect.style.width = `max(1.5px, ${x(Math.max(0, to - from))})`; return rect; };
  const head = request.head === null ? request.total : request.head;
  const all = [row("step", "the request", `answered after ${time(request.head)}, ended after ${time(request.total)}`, [wide(0, head, request.failed && !made.length ? "broken" : "first", 10), wide(head, request.total, "body", 10)], time(request.total), request.failed)];
  const steps = new Map();
  made.forEach((call) => { const key = call.index + " " + call.step; if (!steps.has(key)) steps.set(key, []); steps.get(key).push(call); });
  [...steps.entries()].sort((a, b) => a[1][0].index - b[1][0].index).forEach(([, calls]) => {
    const from = Math.min(...calls.map((call) => call.began)), to = Math.max(...calls.map((call) => call.ended === null ? end : call.ended));
    all.push(row("step", `${calls[0].index + 1}. ${calls[0].step}`, `${calls.length} calls`, [wide(from, to, "span", 4)], `${calls.length === 1 ? "1 call" : calls.length + " calls"}`));
    calls.forEach((call) => {
      const ended = call.ended === null ? end : call.ended;
      const connected = call.connected === null ? (call.head === null ? ended : call.began) : call.connected;
      const answered = call.head === null ? ended : call.head;
      const failed = call.error !== null || call.status >= 500;
      const place = call.server ? call.server : "cache";
      const opening = call.opening ? ` (DNS ${time(call.opening[0])}, connect ${time(call.opening[1])}, TLS ${time(call.opening[2])})` : call.reused ? " (kept connection)" : "";
      const title = `${call.method} ${call.path}${call.query ? "?…" : ""}\n${call.upstream} at ${place}${call.attempt > 1 ? `, attempt ${call.attempt}` : ""}\nbegan ${time(call.began)}\nconnection after ${time(call.connected === null ? null : call.connected - call.began)}${opening}\nhead after ${time(call.head === null ? null : call.head - call.began)}\nended after ${time(ended - call.began)}\n${call.bytes} bytes${call.cache ? `\ncache: ${call.cache}` : ""}${call.dropped ? "\ngiven up" : ""}`;
      const shapes = [wide(call.began, Math.max(connected, call.began), "wait", 8), wide(connected, answered, failed ? "broken" : "first", 10), call.head === null ? null : wide(answered, ended, failed ? "broken" : "body", 10)];
      const how = `${time(ended - call.began)} ${call.error || call.status || (call.dropped ? "given up" : NONE)}`;
      const line = row("call", `${call.attempt > 1 ? `↻${call.attempt} ` : ""}${call.upstream} ${call.method === "GET" ? "" : call.method + " "}${call.path}`, title, shapes, call.cache && call.cache !== "miss" ? `${time(ended - call.began)} ${call.cache}` : how, failed);
      line.dataset.call = `${call.upstream} ${call.path}`;
      all.push(line);
    });
  });
  marks.forEach((mark) => {
    const tick = (at) => s("line", { class: "mark", x1: x(at), x2: x(at), y1: 0, y2: 14 });
    all.push(row("call mark", `◆ ${mark.label}`, `${mark.messages} messages, from ${time(mark.first)} to ${time(mark.last)}`, [s("line", { class: "between", x1: x(mark.first), x2: x(mark.last), y1: 7, y2: 7 }), tick(mark.first), tick(mark.last)], time(mark.last)));
  });
  const axis = h("div", { class: "bar-row axis" }, h("span"), h("div", { class: "ends" }, [0, 0.5, 1].map((part) => h("span", {}, time(end * part)))), h("span"));
  const sample = (kind, text) => h("span", {}, s("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" }, s("rect", { class: kind, width: 18, height: 10 })), text);
  const facts = [request.route || "no endpoint", `${statusText(request)}`, `head ${time(request.head)}`, `total ${time(request.total)}`, bytes(request.bytes), clock(request.at), `id ${request.id}`];
  $("detail").replaceChildren(
    h("h3", {}, `${request.method} ${request.path}`),
    h("p", { class: "facts" }, facts.join(" · ")),
    ...request.reasons.map((reason) => h("p", { class: "reason" }, [reason.cause, reason.upstream, reason.step].filter(Boolean).join(" · ") + ": " + reason.detail)),
    h("div", { class: "waterfall", tabindex: 0, role: "group", "aria-label": "Waterfall" }, axis, all),
    request.calls > made.length ? h("p", { class: "note" }, `${request.calls - made.length} more calls`) : "",
    h("p", { class: "legend" }, sample("wait", "waits for a connection"), sample("first", "waits for the head"), sample("body", "reads the body"), sample("broken", "failed")));
}
$("detail").replaceChildren(h("p", { class: "empty" }, "Choose a request or a route to see where its time went. “/” looks for a request id."));

// What was counted over a longer time, where it is kept.
const figureColumns = [
  { title: "of", class: "name", update: (cell, row) => put(cell, row.name) },
  number("requests", "requests", count),
  { title: "errors", class: "n", update: (cell, row) => failures(cell, row.errors, row.requests) },
  number("p95", "p95_ms", time),
  number("sent", "sent_bytes", bytes, true), number("upstream calls", "upstream_calls", count),
  number("requests saved", "saved_requests", count), number("bytes saved", "saved_bytes", bytes, true),
];
const figures = table($("figures"), figureColumns, "Nothing was counted in this time.");
const periods = { hour: "last=1h", day: "last=24h", week: "last=7d" };
const counted = { period: "day", grouping: "route" };
async function sumUp() {
  $("analytics").hidden = !state.status || !state.status.analytics;
  if ($("analytics").hidden) return;
  const wanted = () => `${periods[counted.period]}&span=all&by=${counted.grouping}`, query = wanted();
  const response = await fetch("/analytics?" + query).catch(() => null);
  if (!response || !response.ok) return;
  const all = await response.json();
  // Something else may have been chosen meanwhile.
  if (query !== wanted()) return;
  $("csv").setAttribute("href", `/analytics?${query}&format=csv`);
  all.forEach((row) => { row.name = row[counted.grouping] || (counted.grouping === "route" ? "no endpoint" : "no consumer"); });
  const most = all.sort((a, b) => b.requests - a.requests).slice(0, 100);
  figures.show(most, (row) => row.name, cells(figureColumns), refresh(figureColumns));
}
choice("period", Object.keys(periods), counted.period, (period) => { counted.period = period; sumUp(); });
choice("grouping", ["route", "consumer"], counted.grouping, (grouping) => { counted.grouping = grouping; sumUp(); });

// What else there is to know.
const failureColumns = [
  { title: "when", class: "n", update: (cell, failure) => put(cell, clock(failure.at)) },
  { title: "request", class: "name", make: (failure) => h("button", { type: "button", class: "link", onclick: () => { show(failure.id); $("requests").scrollIntoView(); } }, failure.route || "no endpoint"), update: () => {} },
  { title: "cause", update: (cell, failure) => { put(cell, failure.cause); cell.className = "bad"; } },
  { title: "upstream", class: "less", update: (cell, failure) => put(cell, failure.upstream || "") },
  { title: "detail", class: "wrap", update: (cell, failure) => put(cell, failure.detail) },
];
const failureTable = table($("failures"), failureColumns, "None since the gateway began.");
function facts(id, pairs, empty) {
  const list = $(id);
  if (!pairs.length) pairs = [[empty, ""]];
  rows(list, pairs.flatMap(([name, value, kind], index) => [{ key: index + "t", text: name, tag: "dt" }, { key: index + "d", text: value, tag: "dd", kind: kind || "" }]),
    (item) => item.key, (item) => h(item.tag), (element, item) => { put(element, item.text); element.className = item.kind || ""; });
}
function showRest(status) {
  failureTable.show(status.failures, (failure) => failure.id + failure.at, cells(failureColumns), refresh(failureColumns));
  const { cache, configuration } = status;
  facts("cache", [["hit ratio", share(cache.hits, cache.hits + cache.misses)], ["hits, misses", `${count(cache.hits)}, ${count(cache.misses)}`], ["answers kept", count(cache.entries)], ["memory", `${bytes(cache.bytes)} of ${bytes(cache.bound)}`], ["made room", count(cache.evicted)], ["purges", count(cache.purges)]], "");
  facts("limits", status.refused.map(([by, n]) => [by, count(n), n > 0 ? "warn" : ""]), "");
  facts("certificates", status.certificates.map((one) => {
    const left = one.expires - status.gateway.now;
    return [`${one.name} at ${one.listener}`, left < 0 ? "expired" : `${spell(left)} left`, left < 0 ? "bad" : left < 14 * 86400 ? "warn" : ""];
  }), "no listener has TLS");
  facts("configuration", [["read", day(configuration.read)], ["endpoints", count(status.gateway.endpoints)], ["listens at", status.gateway.listening.join(", ")], ["warnings", String(configuration.warnings.length), configuration.warnings.length ? "warn" : ""]], "");
  rows($("warnings"), configuration.warnings, (text) => text, () => h("li"), (item, text) => put(item, text));
  const notices = [];
  if (configuration.refused) notices.push(`The configuration that was read at ${day(configuration.refused.at)} has problems; the old one goes on. ${configuration.refused.problems.slice(0, 3).join(" — ")}`);
  rows($("notices"), notices, (text) => text, () => h("p", { role: "alert" }), (item, text) => put(item, text));
  const { gateway, total } = status;
  put($("about"), `${gateway.version} · up ${spell(gateway.uptime)} · ${count(total.requests)} requests, ${count(total.failed)} failed`);
}

// Purging asks twice.
let sure = false, unsure = 0;
const calm = (text) => { sure = false; put($("purge"), text || "Purge all"); };
$("purge").addEventListener("click", async () => {
  clearTimeout(unsure);
  if (!sure) { sure = true; put($("purge"), "Really purge all?"); unsure = setTimeout(calm, 4000); return; }
  const response = await fetch("/cache/purge", { method: "POST", headers: { "content-type": "application/json" }, body: "{\"all\":true,\"mode\":\"hard\"}" }).catch(() => null);
  calm(response && response.ok ? `Purged ${(await response.json()).purged}` : "Not purged");
  unsure = setTimeout(calm, 4000);
});

// Live: a status a second, while the page is looked at.
let source = null, again = 0, beats = 0;
function away(text) { put($("live"), text); $("live").classList.add("away"); }
function receive(event) {
  const status = state.status = JSON.parse(event.data);
  put($("live"), "live");
  $("live").classList.remove("away");
  // After a restart, requests of before are gone.
  if (state.boot !== status.gateway.began) { state.boot = status.gateway.began; load(); }
  tiles.forEach((tile) => tile(status));
  charts(status);
  showRoutes(status);
  showUpstreams(status);
  showRest(status);
  document.documentElement.dataset.beats = ++beats;
  const list = $("list").parentElement;
  if (beats % 15 === 1) sumUp();
  // A list that somebody points at stands still.
  if (beats % 2 === 0 && !list.matches(":hover") && !list.contains(document.activeElement)) load();
}
function connect() {
  clearTimeout(again);
  if (source) source.close();
  source = null;
  if (document.hidden) return away("paused");
  source = new EventSource("/events");
  source.onmessage = receive;
  source.onerror = () => {
    away("reconnecting");
    if (source && source.readyState === EventSource.CLOSED) again = setTimeout(connect, 1500);
  };
}
document.addEventListener("visibilitychange", connect);
connect();
