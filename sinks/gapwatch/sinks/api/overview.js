// Fills the page from /metrics and the store every five seconds. All values are inserted as text, never as markup.
"use strict";

const EVERY = 5000;
// Current state of each alert that is not closed, with the latest label of its shift.
const ALERTS = `SELECT a.alert_id, a.state, a.severity, a.component, a.metric, a.judge, a.pipeline, a.environment, a.found_at, a.until,
    coalesce(s.kind, a.facts->>'kind') AS kind, coalesce(s.verdict, a.facts->>'verdict') AS verdict,
    a.facts->>'unit' AS unit, a.facts->'before'->>0 AS before, a.facts->'after'->>0 AS after,
    a.facts->'after'->>1 AS lower, a.facts->'after'->>2 AS upper, a.facts->>'change_at' AS began,
    a.facts->'bound'->>0 AS operator, a.facts->'bound'->>1 AS bound,
    a.facts->>'bound_of' AS bound_of, a.facts->>'bound_unit' AS bound_unit, a.facts->>'part' AS part,
    a.facts->'values'->>'q' AS q, a.facts->'values'->>'before' AS value_before, a.facts->'values'->>'after' AS value_after,
    a.facts->>'number_unit' AS number_unit, a.facts->>'watched' AS watched,
    a.incident_id
  FROM (SELECT alert_id, any_value(incident_id) AS incident_id, component, metric, judge, pipeline, environment, arg_max(state, rowid) AS state,
      arg_max(severity, rowid) AS severity, arg_max(shift_id, rowid) AS shift_id, min("at") AS found_at,
      arg_max(attribution->>'until', rowid) AS until, arg_min(attribution, rowid) AS facts
    FROM alerts WHERE lane = 'live' GROUP BY ALL) a
  LEFT JOIN (SELECT shift_id, arg_max(kind, rowid) AS kind, arg_max(verdict, rowid) AS verdict FROM shifts
    GROUP BY ALL) s ON s.shift_id = a.shift_id
  WHERE a.state IN ('open', 'acknowledged', 'silenced')
  ORDER BY a.severity = 'page' DESC, a.severity = 'ticket' DESC, a.found_at DESC, a.alert_id LIMIT 1000`;
// Current state of each incident that is not over, with what messages say of it.
const INCIDENTS = `SELECT incident_id, name, state, severity, component, pipeline, environment, since, opened_at AS found_at, kind,
    json_array_length(members) AS alerts, told->>'what' AS what, told->>'share' AS share, told->>'before' AS before,
    told->>'after' AS after, told->>'interval' AS interval, told->>'cause' AS cause, told->>'first' AS first, told->>'until' AS until
  FROM (SELECT *, min("at") OVER (PARTITION BY incident_id) AS opened_at FROM incidents WHERE lane = 'live'
    QUALIFY row_number() OVER (PARTITION BY incident_id ORDER BY rowid DESC) = 1)
  WHERE state IN ('open', 'acknowledged', 'silenced')
  ORDER BY severity = 'page' DESC, severity = 'ticket' DESC, opened_at DESC, incident_id LIMIT 1000`;
const MOST_ROWS = 100; // of the table of alerts; all are counted
const WORDS = { cascade: "CASCADE", shift: "SHIFT", unknown: "BLIND", bound: "BOUND" };
// Severity of the messages about an acknowledged incident.
const TOLD_AS = { page: "ticket", ticket: "note" };
const POLARITIES = { worse: "worse", better: "better", unknown: "polarity unknown" };

// Quantities whose alerts are shown in the line of the failure rate.
const OF_RATE = ["sessions", "unknown", "bound"];
// Units by which a failure rate is monitored: traces, or sessions of traces. A series with both shows the more urgent.
const UNITS = ["sessions", "rate"];
// Phase of a series to its sentence, the most urgent last; a test holds that catalog/phases.py has the same.
const PHASES = {
  unwatched: "has data that no detector can monitor",
  learning: "has too few units yet to look for a change; its bounds are checked all the same",
  blind: "is monitored, but only a change larger than the portfolio's blind_above_ratio is found within a day",
  calm: "is monitored, with less than a hundredth of the evidence that opens a ticket",
  suspect: "has at least a hundredth of the evidence that opens a ticket; nobody is told",
  noticed: "has moved, but not surely by more than min_change and a usual day; nobody is told",
  ticket: "has moved, with evidence for a ticket; an alert of its metric tells of it",
  page: "has moved, with evidence for a page; an alert of its metric tells of it",
};

let before = null; // number of records and time at the last update

function parse(text) {
  const found = new Map();
  const line = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/;
  const label = /([a-z_0-9]+)="((?:[^"\\]|\\.)*)"/g;
  for (const one of text.split("\n")) {
    const parts = one[0] === "#" ? null : line.exec(one);
    if (!parts) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] || "").matchAll(label)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    const value = parts[3] === "+Inf" ? Infinity : parts[3] === "-Inf" ? -Infinity : Number(parts[3]);
    if (!found.has(parts[1])) found.set(parts[1], []);
    found.get(parts[1]).push({ labels, value });
  }
  return found;
}

function total(metrics, name, holds = () => true) {
  return (metrics.get(name) || []).filter((s) => holds(s.labels)).reduce((sum, s) => sum + s.value, 0);
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function table(head, rows) {
  const made = element("table");
  const first = made.createTHead().insertRow();
  head.forEach(([name, kind]) => first.append(element("th", name, kind)));
  const body = made.createTBody();
  for (const cells of rows) {
    const row = body.insertRow();
    cells.forEach((cell, i) => {
      const place = row.insertCell();
      if (head[i][1]) place.className = head[i][1];
      place.dataset.column = head[i][0]; // shown where a narrow screen stacks the cells
      if (cell instanceof Node) place.append(cell);
      else place.textContent = cell;
    });
  }
  return made;
}

function named(name, where) {
  const made = element("div", name);
  made.append(element("small", where));
  return made;
}

function share(value) {
  if (value === null || value === undefined || Number.isNaN(Number(value))) return "-";
  const percent = 100 * Number(value);
  if (percent === 0 || percent === 100) return `${percent}%`;
  // A share below 1 must not read as 100 %, nor one above 0 as 0 %.
  if (percent >= 10) return `${(percent < 100 ? Math.min(percent, 99.9) : percent).toFixed(1)}%`;
  return `${percent.toFixed(percent >= 0.1 ? 2 : Math.min(1 - Math.floor(Math.log10(percent)), 8))}%`;
}

function time(text) {
  return text ? String(text).replace("T", " ").replace(/(\.\d+)?Z?$/, "") : "-";
}

function seconds(value) {
  if (value < 90) return `${Math.round(value)} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  return value < 172800 ? `${Math.round(value / 3600)} h` : `${Math.round(value / 86400)} days`;
}

function tile(name, value, state) {
  const made = element("div", undefined, `tile ${state}`);
  made.append(element("b", value), element("span", name));
  return made;
}

// Names of metrics, components and quantities that are not monitored.
function notMonitored(metrics) {
  const of = (name, holds) => (metrics.get(name) || []).filter(({ labels, value }) => value === 1 && holds(labels));
  const all = () => true;
  return [
    ...of("gapwatch_metric_unwatched", all).map(({ labels: l }) => `${l.metric} of ${l.component || "the trace"}`),
    ...of("gapwatch_component_unwatched", all).map(({ labels: l }) => `component ${l.component}`),
    ...of("gapwatch_series_phase", (l) => l.phase === "unwatched")
      .map(({ labels: l }) => `${l.watched} of ${l.metric}, whose traces are in sessions`),
  ];
}

function plural(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

// Numbers of incidents that somebody acknowledged or silenced, such as "2 acknowledged, 1 silenced"; empty if there are none.
function handled(alerts) {
  return ["acknowledged", "silenced"].map((state) => [alerts.filter((a) => a.state === state).length, state])
    .filter(([n]) => n > 0).map(([n, state]) => `${n} ${state}`).join(", ");
}

// Most urgent severity of the messages about incidents; a silenced incident sends none, but is never calm.
function urgency(alerts) {
  const told = alerts.filter((a) => a.state !== "silenced")
    .map((a) => (a.state === "acknowledged" ? TOLD_AS[a.severity] : a.severity));
  return told.includes("page") ? "page" : told.includes("ticket") ? "ticket" : alerts.length ? "" : "calm";
}

// Headline about open incidents and its color; acknowledged and silenced ones are open. Null without an open incident.
function alertHeadline(alerts) {
  const said = ["page", "ticket", "note"].map((word) => [alerts.filter((a) => a.severity === word).length, word])
    .filter(([n]) => n > 0).map(([n, word]) => plural(n, word)).join(", ");
  const done = handled(alerts);
  return alerts.length ? { text: `${said} open${done ? `: ${done}` : ""}`, state: urgency(alerts) } : null;
}

function alertTile(severity, alerts) {
  const mine = alerts.filter((a) => a.severity === severity);
  const done = handled(mine);
  return tile(`open ${severity}s${done ? `: ${done}` : ""}`, String(mine.length), urgency(mine));
}

function showTiles(metrics, alerts) {
  const blind = total(metrics, "gapwatch_series", (l) => l.phase === "blind");
  const unmonitored = notMonitored(metrics).length;
  const behind = Math.max(0, ...(metrics.get("gapwatch_lag_seconds") || []).map((s) => s.value));
  const ledger = Math.abs(total(metrics, "gapwatch_ledger_imbalance"));
  const warn = (n, state) => (n > 0 ? state : "calm");
  document.getElementById("tiles").replaceChildren(
    alertTile("page", alerts),
    alertTile("ticket", alerts),
    tile("blind series", String(blind), warn(blind, "ticket")),
    tile("not monitored", String(unmonitored), warn(unmonitored, "ticket")),
    tile("consumer lag", seconds(behind), behind > 600 ? "page" : warn(behind - 60, "ticket")),
    tile("ledger imbalance", String(ledger), warn(ledger, "page")),
  );
  const learning = total(metrics, "gapwatch_series", (l) => l.phase === "learning");
  const watched = total(metrics, "gapwatch_series", (l) => l.phase !== "unwatched");
  const records = (state) => total(metrics, "gapwatch_records_total", (l) => l.state === state);
  const foreign = records("read") + records("duplicate") === 0 && records("foreign");
  const calm = foreign ? `none of ${foreign} traces is of a portfolio's pipeline: the log names them`
    : watched === 0 ? "no series is monitored yet"
    : `no open pages or tickets${learning ? `; ${learning} of ${watched} series are still learning` : ""}`;
  const { text, state } = alertHeadline(alerts) || { text: calm, state: foreign ? "ticket" : watched > learning ? "calm" : "" };
  setHeadline(text, state);
}

function setHeadline(text, state) {
  document.getElementById("headline").textContent = text;
  document.querySelector("header").className = state;
  document.title = state === "page" || state === "ticket" ? `(!) ${text}` : "Gapwatch";
}

function pageOf(alert) {
  const made = element("a");
  made.href = `alerts/${encodeURIComponent(alert)}`;
  made.append(element("code", alert));
  return made;
}

// Severity and state of an incident or, after an arrow, of an alert in it.
function standing(alert, mark = "") {
  const made = element("div", undefined, "standing");
  made.append(element("span", mark + alert.severity, mark ? undefined : `badge ${alert.severity}`));
  if (alert.state !== "open") made.append(element("small", alert.state));
  if (!mark && alert.state === "acknowledged" && TOLD_AS[alert.severity]) made.append(element("small", `told as ${TOLD_AS[alert.severity]}`));
  return made;
}

// Cells of an incident: what moved first, by how much, and how many alerts it holds.
function incidentCells(i) {
  const count = Number(i.alerts);
  const where = `${plural(count, "alert")} · first in ${i.first || i.component || "the trace"} · ${i.pipeline} · ${i.environment}`;
  const move = `${[i.before, i.after].filter(Boolean).join(" → ")}${i.interval ? ` [${i.interval}]` : ""}`;
  return [pageOf(i.incident_id), standing(i), element("b", i.what || WORDS[i.kind] || ""), named(i.name, where), named(move || "-", i.cause && !i.cause.startsWith("no ") ? i.cause : ""),
    i.since ? time(i.since).slice(0, 16) : `found ${time(i.found_at).slice(0, 16)}`];
}

// Incidents, each above its open alerts; an incident of one alert is one line.
function showAlerts(incidents, alerts) {
  const place = document.getElementById("alerts");
  if (!incidents.length && !alerts.length) {
    place.replaceChildren(element("p", "no open incidents", "none"));
    return;
  }
  const rows = incidents.slice(0, MOST_ROWS).flatMap((i) => {
    const mine = alerts.filter((a) => a.incident_id === i.incident_id);
    return [incidentCells(i), ...(Number(i.alerts) > 1 ? mine.slice(0, MOST_ROWS).map(alertCells) : [])];
  });
  place.replaceChildren(table([["id"], ["severity"], ["what"], ["metric"], ["share or value, before → after"], ["since (UTC)"]],
    rows));
  if (incidents.length > MOST_ROWS) place.append(element("p", `the first ${MOST_ROWS} of ${incidents.length} open incidents`, "none"));
}

function alertCells(a) {
  const how = { bound: "broken", unknown: "cannot decide" }[a.kind] || POLARITIES[a.verdict] || "";
  const what = `${WORDS[a.kind] || ""} ${how}`.trim();
  // A bound is in the unit of its quantity, which may have no upper limit.
  const isShare = a.bound === null || a.bound_unit === null || a.bound_unit === "share";
  const amount = isShare ? share : (value) => value === null ? "-" : Number(value).toLocaleString("en", { maximumSignificantDigits: 3 });
  const end = (value, side) => value === null && a.bound !== null ? `no ${side} limit` : amount(value);
  const unit = isShare ? "" : ` ${a.bound_unit}`;
  const of = a.bound_of !== null && a.bound_of !== "failure_rate" ? `${a.bound_of} ` : "";
  const interval = `${of}${amount(a.after)}${unit} [${end(a.lower, "lower")}, ${end(a.upper, "upper")}]`;
  const size = a.bound === null && a.value_before !== null && a.value_after !== null
    ? `${a.q === "0.5" ? "median" : `p${plain(100 * a.q)}`} ${plain(a.value_before)} → ${plain(a.value_after)} ${a.number_unit || ""}`
    : a.bound !== null ? `${interval}, bound ${a.operator} ${amount(a.bound)}${unit}` : `${share(a.before)} → ${interval}${a.part ? ` labelled ${a.part}` : a.kind === "unknown" ? " undecided" : ""}`;
  return [pageOf(a.alert_id), standing(a, "↳ "), what,
    named(a.metric, `${a.component || "the trace"} · ${a.pipeline} · ${a.environment}`), size,
    a.began ? time(a.began).slice(0, 16) : `found ${time(a.found_at).slice(0, 16)}`];
}

function bar(rate, lower, upper, baseline) {
  const space = "http://www.w3.org/2000/svg";
  const made = document.createElementNS(space, "svg");
  const x = (value) => 4 + 168 * Math.sqrt(Math.min(1, Math.max(0, value)));
  made.setAttribute("viewBox", "0 0 176 18");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", `${share(rate)}, from ${share(lower)} to ${share(upper)}`);
  const line = (name, x1, y1, x2, y2) => {
    const one = document.createElementNS(space, "line");
    Object.entries({ x1, y1, x2, y2, class: name }).forEach(([key, value]) => one.setAttribute(key, value));
    made.append(one);
  };
  line("track", 4, 9, 172, 9);
  line("interval", x(lower), 9, x(upper), 9);
  if (baseline !== undefined) line("baseline", x(baseline), 2, x(baseline), 16);
  const dot = document.createElementNS(space, "circle");
  Object.entries({ cx: x(rate), cy: 9, r: 4, class: "rate" }).forEach(([key, value]) => dot.setAttribute(key, value));
  made.append(dot);
  return made;
}

const SERIES = ["pipeline", "environment", "component", "metric", "judge"];
const key = (l) => SERIES.map((name) => l[name] || "").join("\u0000");
const titled = (l) => named(l.metric + (l.judge ? ` (${l.judge})` : ""),
  `${l.component || "the trace"} · ${l.pipeline} · ${l.environment}`);

// Id of each series to the quantity of it that is shown: the one of the most urgent phase.
function shownQuantities(metrics, quantities) {
  const shown = new Map();
  const rank = (l) => [Object.keys(PHASES).indexOf(l.phase), quantities.indexOf(l.watched)];
  for (const { labels } of metrics.get("gapwatch_series_phase") || []) {
    const old = shown.get(key(labels));
    const [phase, place] = rank(labels);
    if (place >= 0 && (!old || phase > rank(old)[0] || (phase === rank(old)[0] && place > rank(old)[1]))) shown.set(key(labels), labels);
  }
  return new Map([...shown].map(([id, labels]) => [id, labels.watched]));
}

// Evidence of each series as text and as a rank, open alerts first.
function standings(metrics, alerts, ...quantities) {
  const shown = shownQuantities(metrics, quantities);
  const is = ({ labels }) => shown.get(key(labels)) === labels.watched;
  const by = (name) => new Map((metrics.get(name) || []).filter(is).map((s) => [key(s.labels), s.value]));
  const [evidence, limit, smallest, inMonth] = ["evidence_log10", "evidence_threshold_log10", "smallest_change_ratio",
    "smallest_change_month_ratio"].map((name) => by(`gapwatch_${name}`));
  const open = new Map(alerts.filter((a) => quantities.includes(a.watched)).reverse().map((a) => [key(a), a]));
  const phases = new Map((metrics.get("gapwatch_series_phase") || []).filter(is).map((s) => [key(s.labels), s.labels.phase]));
  return (id) => {
    const [alert, phase, least] = [open.get(id), phases.get(id), smallest.get(id)];
    const on = Math.min(100, Math.max(0, (100 * evidence.get(id)) / limit.get(id))) || 0;
    const since = alert && alert.began ? ` since ${time(alert.began).slice(11, 16)}` : "";
    const hasShare = ["blind", "calm", "suspect", "noticed"].includes(phase);
    const said = phase === undefined ? "no alert rule" : element("span", hasShare ? `${phase} ${on.toFixed(0)} %` : phase);
    if (phase !== undefined) said.title = `The series ${PHASES[phase]}.`;
    return {
      rank: alert ? (alert.severity === "page" ? 104 : 103) : phase === "page" || phase === "ticket" ? 102 : phase ? on : -1,
      evidence: alert ? element("span", alert.severity + since, `badge ${alert.severity}`)
        : said,
      least: least === undefined ? "-" : phase === "learning" ? "not known yet"
        : `${Number.isFinite(least) ? growth(least) : "none"} / ${Number.isFinite(inMonth.get(id)) ? growth(inMonth.get(id)) : "none"}`,
    };
  };
}

// Ratio by which a rate must grow, with two digits.
function growth(ratio) {
  return `×${Number(ratio.toPrecision(2)).toLocaleString("en", { maximumFractionDigits: 2 })}`;
}

// Text of a number that is accurate to 0.6 %: a number that close to a whole one is shown as the whole one.
function plain(value) {
  if (value === undefined) return "-";
  const number = Number(value), whole = Math.round(number);
  const near = whole !== 0 && Math.abs(number - whole) <= 0.006 * Math.abs(whole) && Math.abs(number) < 100;
  return (near ? whole : number).toLocaleString("en", { maximumSignificantDigits: 3 });
}

function fill(place, head, rows, nothing) {
  rows.sort((a, b) => b.rank - a.rank);
  document.getElementById(place).replaceChildren(
    rows.length ? table(head, rows.slice(0, 200).map((row) => row.cells)) : element("p", nothing, "none"));
}

function showNumbers(metrics, alerts) {
  const stands = standings(metrics, alerts, "numbers");
  const series = new Map();
  for (const name of ["value", "baseline"]) {
    for (const { labels, value } of metrics.get(`gapwatch_${name}_quantile`) || []) {
      if (!series.has(key(labels))) series.set(key(labels), { labels, value: {}, baseline: {} });
      series.get(key(labels))[name][labels.level] = value;
    }
  }
  const rows = [...series].map(([id, { labels, value, baseline }]) => {
    const { rank, evidence, least } = stands(id);
    const pair = (q) => [plain(value[q]), plain(baseline[q])];
    return { rank, cells: [titled(labels), labels.unit || "", ...pair("0.05"), ...pair("0.5"), ...pair("0.95"), evidence, least] };
  });
  fill("numbers", [["metric"], ["unit"], ["p5", "number"], ["baseline", "faint number"], ["median", "number"],
    ["baseline", "faint number"], ["p95", "number"], ["baseline", "faint number"], ["evidence", "number"],
    ["minimum detectable change in a day / a month", "number"]], rows, "no numbers are monitored, or too few came for a baseline");
}

function showLabels(metrics, alerts) {
  const stands = standings(metrics, alerts, "labels");
  const series = new Map();
  for (const { labels, value } of metrics.get("gapwatch_baseline_label_ratio") || []) {
    if (!series.has(key(labels))) series.set(key(labels), { labels, parts: new Map() });
    series.get(key(labels)).parts.set(labels.label, { before: value });
  }
  for (const { labels, value } of metrics.get("gapwatch_label_ratio") || []) {
    const part = series.has(key(labels)) && series.get(key(labels)).parts.get(labels.label);
    if (part) part.now = value;
  }
  const rows = [...series].map(([id, { labels, parts }]) => {
    const { rank, evidence, least } = stands(id);
    const list = element("ul", undefined, "mix");
    [...parts].sort((a, b) => b[1].before - a[1].before).forEach(([label, { now, before: held }]) => {
      if (!now && held < 0.001) return;
      const item = element("li", `${label} ${share(now)}`);
      item.append(bar(now ?? 0, now ?? 0, now ?? 0, held), element("small", `baseline ${share(held)}`));
      list.append(item);
    });
    return { rank, cells: [titled(labels), list, evidence, least] };
  });
  fill("labels", [["metric"], ["share of traces by label"], ["evidence", "number"],
    ["minimum detectable change in a day / a month", "number"]], rows, "no labels are monitored, or too few came for a baseline");
}

function showSeries(metrics, alerts) {
  const by = (name, holds = () => true) =>
    new Map((metrics.get(name) || []).filter((s) => holds(s.labels)).map((s) => [key(s.labels), s.value]));
  const [lower, upper, units] = ["lower", "upper"].map((end) => by(`gapwatch_failure_ratio_${end}`)).concat(by("gapwatch_window_units"));
  const shown = shownQuantities(metrics, UNITS);
  const baseline = by("gapwatch_baseline_ratio", (l) => shown.get(key(l)) === l.watched);
  const unknown = by("gapwatch_unknown_ratio");
  const stands = standings(metrics, alerts.map((a) => (OF_RATE.includes(a.watched) ? { ...a, watched: "rate" } : a)), ...UNITS);
  const rows = (metrics.get("gapwatch_failure_ratio") || []).map(({ labels, value }) => {
    const id = key(labels);
    const { rank, evidence, least } = stands(id);
    return { rank, cells: [titled(labels), share(value), bar(value, lower.get(id), upper.get(id), baseline.get(id)),
      share(baseline.get(id)), evidence, least, String(Math.round(units.get(id) || 0)), share(unknown.get(id) || 0)] };
  });
  fill("series", [["metric"], ["failing", "number"], ["0 to 100 %"], ["baseline", "number"], ["evidence", "number"],
    ["minimum detectable change in a day / a month", "number"], ["traces", "number"], ["undecided", "number"]], rows,
  "no data: no trace was decided in the last hour of event time");
}

// Records of each pipeline whose time is far from that of the others, with their share, such as "shop: 3 ahead (0.1 %)".
function wrongTimes(metrics) {
  const records = metrics.get("gapwatch_records_total") || [];
  const of = (pipeline, state) => total(metrics, "gapwatch_records_total", (l) => l.pipeline === pipeline && l.state === state);
  const wrong = records.filter((s) => ["ahead", "behind"].includes(s.labels.state) && s.value > 0);
  return [...new Set(wrong.map((s) => `${s.labels.pipeline} ${s.labels.state}`))].sort().map((name) => {
    const [, pipeline, state] = name.match(/^(.*) (\w+)$/);
    const n = of(pipeline, state);
    return `${pipeline}: ${n.toLocaleString("en")} ${state} (${share(n / Math.max(of(pipeline, "read"), 1))})`;
  }).join("; ") || "none";
}

function showStream(metrics, now, health) {
  const records = total(metrics, "gapwatch_records_total", (l) => l.state !== "duplicate");
  const pace = before ? Math.max(0, (records - before.records) / ((now - before.now) / 1000)) : null;
  before = { records, now };
  const lag = total(metrics, "gapwatch_lag_records");
  const letters = total(metrics, "gapwatch_dead_letters_total");
  const state = (metrics.get("gapwatch_source_state") || []).filter((s) => s.value === 1).map((s) => s.labels.state)[0];
  const newest = (metrics.get("gapwatch_newest_event_timestamp_seconds") || []).map((s) => `${s.labels.pipeline}: ${time(new Date(1000 * s.value).toISOString())}`);
  const build = (metrics.get("gapwatch_build_info") || [])[0];
  const portfolios = (metrics.get("gapwatch_portfolio_info") || []).map((s) => `${s.labels.portfolio} version ${s.labels.version}`);
  const expected = total(metrics, "gapwatch_expected_false_alarms_total");
  const pending = total(metrics, "gapwatch_judge_requests_pending");
  const silence = total(metrics, "gapwatch_broker_answer_age_seconds");
  const facts = {
    source: (state || "-") + (silence > 15 ? `; Kafka last answered ${seconds(silence)} ago` : ""),
    records: `${records.toLocaleString("en")}${pace === null ? "" : `, ${pace.toFixed(pace < 10 ? 1 : 0)} a second`}; ${lag.toLocaleString("en")} not stored yet`,
    "dead letters": String(letters), "wrong times": wrongTimes(metrics), "rates until (UTC)": newest.join("; ") || "-",
    "waiting for a judge": `${pending} spans`, "expected false alarms so far": `at most ${expected.toPrecision(2)}`,
    "not monitored": notMonitored(metrics).join("; ") || "-",
    portfolios: portfolios.join(", ") || "-",
    store: `${(total(metrics, "gapwatch_store_bytes") / 1e6).toFixed(1)} MB`, version: build ? build.labels.version : "-",
  };
  // Problems that do not stop the run, such as a provider of judges that refuses its key.
  for (const [name, text] of Object.entries(health.notes || {})) facts[`note: ${name}`] = text;
  const place = document.getElementById("stream");
  place.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
}

// Alerts with their present state: a silence that has ended does not count.
function present(alerts, now) {
  const isOver = (a) => a.state === "silenced" && a.until && Date.parse(a.until) <= now;
  return alerts.map((a) => (isOver(a) ? { ...a, state: "open" } : a));
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (answer.status === 401) location.reload(); // the session has ended: the page asks for the token
  if (!answer.ok) throw new Error(`${path.split("?")[0]} answers ${answer.status}`);
  return answer;
}

// An answer with status 503 says what is wrong, too.
async function askHealth() {
  return (await fetch("healthz", { cache: "no-store" })).json();
}

async function look() {
  try {
    const query = (sql) => ask(`v1/query?sql=${encodeURIComponent(sql)}`).then((a) => a.json());
    const parts = [ask("metrics").then((a) => a.text()), query(ALERTS), query(INCIDENTS), askHealth()];
    const [page, stored, told, health] = await Promise.all(parts);
    const [metrics, alerts, incidents] = [parse(page), present(stored, Date.now()), present(told, Date.now())];
    showTiles(metrics, incidents);
    showAlerts(incidents, alerts);
    showSeries(metrics, alerts);
    showNumbers(metrics, alerts);
    showLabels(metrics, alerts);
    showStream(metrics, performance.now(), health);
    document.getElementById("clock").textContent = `as of ${time(new Date().toISOString())} UTC`;
  } catch (error) {
    setHeadline(`no answer: the values below are old (${error.message})`, "lost");
  }
  setTimeout(look, EVERY);
}

look();
