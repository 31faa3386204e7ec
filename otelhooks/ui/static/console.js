// Parts of a page that are read again and again: swapped only when they change, so that no click or
// focus is lost, with a notice when they cannot be read, and the number of open questions in the title.
// A page that waits for the first run is loaded again when there is one.
"use strict";

const title = document.title;
const notice = document.getElementById("stale");

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const read = document.createElement("template");
  read.innerHTML = detail.xhr.responseText;
  if (read.innerHTML.trim() === detail.target.innerHTML.trim()) detail.shouldSwap = false;
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target.id !== "count") return;
  const open = detail.target.textContent.trim();
  document.title = open ? `(${open}) ${title}` : title;
});

document.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (!detail.successful && notice.hidden) {
    notice.textContent =
      `Not connected since ${new Date().toLocaleTimeString()}: what you see may be out of date. ` +
      "If the console was started again, open the address that it printed.";
  }
  notice.hidden = detail.successful;
});

if (document.querySelector("[data-waits]")) {
  setInterval(async () => {
    const read = await fetch(location.href).catch(() => null);
    if (read?.ok && !(await read.text()).includes("data-waits")) location.reload();
  }, 2000);
}
