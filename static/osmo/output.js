// The output of a workflow on its page: a link with `data-output` fills the box with the text of its address, as it comes.
// Without this script the link opens the same text.
"use strict";

(function () {
  const MAX_CHARACTERS = 400000; // of the end, which is what people look for
  const box = document.getElementById("output-text");
  if (!box || !window.fetch || !window.TextDecoder) return;
  const status = document.getElementById("output-status");
  let reading = null;

  async function show(link) {
    reading?.abort();
    const mine = (reading = new AbortController());
    status.textContent = `Reading ${link.dataset.output} …`;
    box.textContent = "";
    box.hidden = false;
    box.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(link.href, { headers: { Accept: "text/plain" }, signal: mine.signal, cache: "no-store" });
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (mine !== reading) return;
        text = (text + decoder.decode(value || new Uint8Array(), { stream: !done })).slice(-MAX_CHARACTERS);
        box.textContent = text;
        box.scrollTop = box.scrollHeight;
        if (done) break;
      }
      status.textContent = answer.ok ? `${link.dataset.output}, read at ${new Date().toLocaleTimeString()}` : `The answer was ${answer.status}.`;
    } catch (problem) {
      if (problem.name !== "AbortError") status.textContent = "The text broke off: the server does not answer. Try again.";
    } finally {
      if (mine === reading) box.removeAttribute("aria-busy");
    }
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-output]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    show(link);
    box.scrollIntoView({ block: "nearest" });
    box.focus({ preventScroll: true });
  });
})();
