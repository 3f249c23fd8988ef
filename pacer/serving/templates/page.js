// The page keeps the case and sends all of it with each request; the server stores nothing.
"use strict";
const $ = (selector) => document.querySelector(selector);
const LARGEST = 100_000_000;
const images = {}; // place -> the file that the server could open
const requestNumbers = { frontal: 0, lateral: 0 }; // number of the latest request for each picture; answers to earlier requests are ignored
let running = null; // the current request for a report

const used = (place) => images[place] && ($(`#with-${place}`)?.checked ?? true);
const prior = () => ($("#with-prior")?.checked ? $("#prior").value : "");

function caseEdited() { // the case has changed: the current request is cancelled, and the shown results are outdated
  showState(running ? "The case was changed; its report was cancelled." : "");
  running?.abort();
  const shown = $("#report");
  if (shown.querySelector("article") && !shown.querySelector(".outdated"))
    shown.insertAdjacentHTML("afterbegin", "<p class='problem outdated' role='status'>Out of date: the case was changed after this was written.</p>");
  const sources = ["frontal view", used("lateral") && "lateral view", prior().trim() && "previous report"];
  $("#context").innerHTML = images.frontal
    ? `Will be written from: ${sources.filter(Boolean).join(", ")}` : "<span class='quiet'>Add a frontal radiograph to begin.</span>";
}

function showState(sentence) { $("#state").textContent = sentence; }

function updateButtons() {
  const looking = Object.keys(requestNumbers).some((place) => $(`#shown-${place}`)?.dataset.looking);
  $("#write").disabled = Boolean(running) || looking;
  $("#cancel").hidden = !running;
  $("#report").inert = Boolean(running); // one list of findings at a time, because the server finishes each report
}

function clearImage(place, shown = "") {
  requestNumbers[place] += 1;
  delete images[place];
  $(`#shown-${place}`).innerHTML = shown;
  delete $(`#shown-${place}`).dataset.looking;
  $(`#drop-${place}`).value = "";
  $(`#drop-${place}`).parentElement.hidden = false;
  $(`#remove-${place}`).hidden = true;
}

async function upload(place, file) {
  clearImage(place);
  const number = requestNumbers[place], shown = $(`#shown-${place}`);
  shown.dataset.looking = "yes";
  shown.textContent = "Opening…";
  updateButtons();
  let answer, html;
  try {
    if (file.size > LARGEST) throw new Error(`The file has ${file.size.toLocaleString("en")} bytes, more than ${LARGEST.toLocaleString("en")}.`);
    answer = await fetch(`look/${place}`, { method: "POST", body: file });
    html = await answer.text();
    if (!answer.ok && answer.status !== 422) throw new Error(html);
  } catch (error) { answer = { ok: false }; html = problem(error); }
  if (number !== requestNumbers[place]) return;
  clearImage(place, html);
  if (answer.ok) {
    images[place] = file;
    $(`#drop-${place}`).parentElement.hidden = true;
    $(`#remove-${place}`).hidden = false;
  }
  caseEdited(); updateButtons();
}

function problem(error) {
  const shown = document.createElement("p");
  shown.className = "problem";
  shown.setAttribute("role", "alert");
  shown.textContent = error instanceof TypeError ? "Cannot reach the server." : error.message;
  return shown.outerHTML;
}

async function write(commitment = "") { // the user's list of findings; empty: the model's own
  const own = (running = new AbortController()), panel = $("#report");
  const files = ["frontal", "lateral"].filter(used).map((place) => images[place]);
  const value = (name) => $(`#${name}`).value;
  const fields = { sizes: images.frontal ? files.map((file) => file.size) : [], prior: prior(), indication: value("indication"),
    history: value("history"), view: value("view"), commitment };
  updateButtons(); showState("Writing…");
  let html, state = "";
  try {
    const body = new Blob([JSON.stringify(fields) + "\n", ...(images.frontal ? files : [])]);
    const answer = await fetch("report", { method: "POST", body, signal: own.signal });
    html = await answer.text();
    if (!answer.ok && answer.status !== 422) throw new Error(html);
    state = html.includes("<article") ? "Done." : "";
  } catch (error) {
    if (own.signal.aborted) return;
    html = problem(error);
  } finally {
    if (running === own) { running = null; updateButtons(); }
  }
  showState(state);
  panel.querySelector("#list .problem")?.remove();
  if (commitment && !state) return $("#list").insertAdjacentHTML("beforeend", html); // the list can be corrected
  panel.innerHTML = html;
  const top = $("#results").getBoundingClientRect().top; // in a narrow window the results are below the case
  if (top < 0 || top > innerHeight / 2) $("#results").scrollIntoView();
}

for (const place of Object.keys(requestNumbers)) {
  const input = $(`#drop-${place}`);
  if (!input) continue;
  const slot = input.closest(".slot");
  input.addEventListener("change", () => input.files.length && upload(place, input.files[0]));
  slot.addEventListener("dragover", (event) => { event.preventDefault(); slot.classList.add("over"); });
  slot.addEventListener("dragleave", () => slot.classList.remove("over"));
  slot.addEventListener("drop", (event) => {
    event.preventDefault(); slot.classList.remove("over");
    if (event.dataTransfer.files.length) upload(place, event.dataTransfer.files[0]);
  });
  $(`#remove-${place}`).addEventListener("click", () => { clearImage(place); caseEdited(); updateButtons(); $(`#drop-${place}`).focus(); });
}
$("#case").addEventListener("input", (event) => event.target.type !== "file" && caseEdited());
$("#case").addEventListener("submit", (event) => { event.preventDefault(); write(); });
$("#cancel").addEventListener("click", () => { running?.abort(); running = null; updateButtons(); showState("Cancelled."); $("#write").focus(); });
$("#results").addEventListener("submit", (event) => { event.preventDefault(); write($("#commitment").value.trim()); });
caseEdited();
