// Sends decisions on the items of the queue and on issues, with the write token that the page holds until it is left.
"use strict";

const author = document.getElementById("author");
const said = document.getElementById("said");

function tell(text, state) {
  said.textContent = text;
  said.className = state;
}

async function send(form) {
  const item = form.closest("[data-item]");
  const path = item ? "v1/triage" : "v1/issues/status";
  const subject = item ? { item: item.dataset.item } : { issue: form.closest("[data-issue]").dataset.issue };
  const { by, token } = Object.fromEntries(new FormData(author));
  if (!author.reportValidity()) return;
  const force = form.dataset.force ? { force: true } : {};
  const root = new URL(document.querySelector("link[rel=stylesheet]").href).href.replace("overview.css", "");
  const answer = await fetch(root + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    body: JSON.stringify({ ...subject, ...Object.fromEntries(new FormData(form)), by, ...force }),
  });
  const result = await answer.json();
  if (!answer.ok) {
    if (result.similar) { // a second press makes it all the same
      form.dataset.force = "yes";
      form.querySelector("button").textContent = "make it all the same";
    }
    tell(result.error, "badge page");
    author.scrollIntoView({ block: "nearest" });
    return;
  }
  tell(result.said || result.waiting || "done", "badge calm");
  if (!item) return void setTimeout(() => location.reload(), 800);
  for (const one of result.items || [item.dataset.item]) {
    const place = document.querySelector(`[data-item="${CSS.escape(one)}"]`);
    if (place) place.remove();
  }
}

document.addEventListener("submit", (event) => {
  if (event.target === author) event.preventDefault();
  if (!event.target.classList.contains("decision")) return;
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  send(event.target).catch((error) => tell(`no answer: ${error.message}`, "badge page")).finally(() => { button.disabled = false; });
});
