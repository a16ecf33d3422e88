// A form is sent once: the second click of a double click is no second order. A click some seconds later is meant.
"use strict";

(function () {
  const MEANT_AGAIN = 5000; // milliseconds; also for somebody who stopped a page that would not come
  const sent = new WeakSet();

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || (form.getAttribute("method") || "").toLowerCase() !== "post") return;
    if (sent.has(form)) {
      event.preventDefault();
      return;
    }
    sent.add(form);
    window.setTimeout(() => sent.delete(form), MEANT_AGAIN);
  });
})();
