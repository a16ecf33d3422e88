// A form is sent once: the second click of a double click is ignored. A click some seconds later sends again.
"use strict";

(function () {
  const RESEND_AFTER = 5000; // milliseconds; a person who stopped a slow page can send the form again
  let sent = new WeakSet();

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || (form.getAttribute("method") || "").toLowerCase() !== "post") return;
    if (sent.has(form)) {
      event.preventDefault();
      return;
    }
    sent.add(form);
    window.setTimeout(() => sent.delete(form), RESEND_AFTER);
  });

  window.addEventListener("pageshow", (event) => {
    if (event.persisted) sent = new WeakSet(); // Back shows the page as it was left, with a form that can be sent again
  });
})();
