#include "src/runtime/seeing/status_page.h"

namespace byteps::runtime {

namespace {

// Asks for /status.json twice a second. The page inserts the values as text, never as markup.
constexpr std::string_view kLivePage = R"html(<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>BytePS job</title>
<style>
  body { font: 14px system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }
  table { border-collapse: collapse; margin: 1em 0; }
  th, td { text-align: right; padding: .2em .7em; border-bottom: 1px solid #ddd; }
  th:first-child, td:first-child, td.text, th.text { text-align: left; }
  tr.silent, tr.away { background: #fdd; } tr.waits, tr.left { color: #888; }
  .plots { display: flex; flex-wrap: wrap; gap: 1em; }
  figure { margin: 0; } figcaption { font-weight: 600; margin-bottom: .2em; }
  canvas { border: 1px solid #ccc; width: 460px; height: 180px; }
  #problem { color: #a00; font-weight: 600; }
  pre { white-space: pre-wrap; background: #f6f6f6; padding: .7em; } pre:empty { display: none; }
</style>
<h1 id="title">BytePS job</h1>
<p id="state"></p>
<p id="problem"></p>
<div class="plots">
  <figure><figcaption>MB/s of each rank</figcaption><canvas id="rate"></canvas></figure>
  <figure><figcaption>late, ms (mean of the latest rounds)</figcaption>
    <canvas id="late"></canvas></figure>
</div>
<table><thead><tr><th>member</th><th>number</th><th class="text">state</th><th>process</th>
<th class="text">host</th><th>op/s</th><th>MB/s</th><th>open</th><th>wait %</th><th>late ms</th>
<th>CPU %</th></tr></thead>
<tbody id="members"></tbody></table>
<pre id="waits"></pre>
<pre id="said"></pre>
<script>
"use strict";
const kept = 240, rates = new Map(), lates = new Map();
const color = rank => `hsl(${rank * 137 % 360} 65% 42%)`;
const one = id => document.getElementById(id);
function put(series, rank, value) {
  if (!series.has(rank)) series.set(rank, []);
  const list = series.get(rank);
  list.push(value);
  if (list.length > kept) list.shift();
}
function plot(id, series) {
  const canvas = one(id), scale = window.devicePixelRatio || 1;
  canvas.width = 460 * scale; canvas.height = 180 * scale;
  const draw = canvas.getContext("2d");
  draw.scale(scale, scale);
  let top = 1e-3;
  for (const list of series.values()) top = Math.max(top, ...list);
  draw.fillStyle = "#666"; draw.font = "11px sans-serif";
  draw.fillText(top.toPrecision(3), 4, 12); draw.fillText("0", 4, 176);
  for (const [rank, list] of series) {
    draw.strokeStyle = color(rank); draw.lineWidth = 1.5; draw.beginPath();
    list.forEach((value, i) => {
      const x = 40 + (i + kept - list.length) * 416 / kept, y = 172 - value / top * 160;
      i ? draw.lineTo(x, y) : draw.moveTo(x, y);
    });
    draw.stroke();
  }
}
function row(member) {
  const line = document.createElement("tr");
  line.className = member.state;
  const known = "ended" in member, serves = "received" in member;
  const cells = [member.role, member.index < 0 ? "-" : member.index,
    member.state + (["silent", "away"].includes(member.state)
      ? ` ${(member.silent_ms / 1000).toFixed(1)} s` : ""),
    member.process, member.host, known ? member.operations_per_s.toFixed(1) : "",
    known || serves ? ((known ? member.bytes_per_s : member.received_per_s) / 1e6).toFixed(2) : "",
    known ? member.open : "", known ? (member.waited_share * 100).toFixed(1) : "",
    member.late ? member.late.mean_ms.toFixed(1) : "",
    serves ? (member.cpu_share * 100).toFixed(0) : ""];
  cells.forEach((text, i) => {
    const cell = document.createElement("td");
    cell.textContent = text;
    if (i === 2 || i === 4) cell.className = "text";
    if (i === 1 && known) cell.style.color = color(member.index);
    line.append(cell);
  });
  return line;
}
async function look() {
  try {
    const answer = await fetch("status.json", {cache: "no-store"});
    const job = await answer.json();
    one("problem").textContent = "";
    one("title").textContent = `BytePS job ${job.job}`;
    one("state").textContent = `${job.state}; view ${job.epoch}, ` +
      `${job.workers_expected} workers, ${job.servers_expected} servers expected` +
      (job.waiting_for ? `; ${job.waiting_for}` : "") +
      (job.late_rank >= 0 ? `; rank ${job.late_rank} is late` : "");
    one("members").replaceChildren(...job.members.map(row));
    for (const member of job.members) {
      if (!("ended" in member)) continue;
      put(rates, member.index, member.bytes_per_s / 1e6);
      put(lates, member.index, member.late ? member.late.mean_ms : 0);
    }
    plot("rate", rates); plot("late", lates);
    one("waits").textContent = job.waits.map(wait => `${(wait.age_ms / 1000).toFixed(0)} s ` +
      `'${wait.tensor}': rank ${wait.waiting.join(", ")} ${wait.stage}` +
      (wait.missing.length ? `; not begun by rank ${wait.missing.join(", ")}` : "")).join("\n");
    one("said").textContent = job.said.map(said =>
      `${new Date(said.at_ms).toISOString()} ${said.text}`).join("\n");
  } catch (error) {
    one("problem").textContent = "The job does not answer: it has ended, or cannot be reached.";
  }
  setTimeout(look, 500);
}
look();
</script>
</html>
)html";

}  // namespace

std::string_view LivePage() { return kLivePage; }

}  // namespace byteps::runtime
