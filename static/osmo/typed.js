// Back from a preview shows the form with its input: when the form is sent, its input is written into its own address, in
// which the server looks for first values. Secrets and files are left out, and the longest texts where the address would
// become too long; “Change the input” on the preview brings these back as well.
"use strict";

(function () {
  const MAX_LENGTH = 6000; // characters, as of the address of a preview
  const OURS = ["csrfmiddlewaretoken", "step", "seen", "version"];

  function isSecret(form, name) {
    const field = form.elements.namedItem(name);
    return field instanceof Element && (field.type === "password" || "secret" in field.dataset);
  }

  function queryOf(form) {
    const typed = Array.from(new FormData(form)).filter(([name, text]) => typeof text === "string" && !OURS.includes(name) && !isSecret(form, name));
    let query = new URLSearchParams(typed).toString();
    while (query.length > MAX_LENGTH) {
      typed.splice(typed.reduce((longest, [, text], index) => (text.length > typed[longest][1].length ? index : longest), 0), 1);
      query = new URLSearchParams(typed).toString();
    }
    return query;
  }

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || !event.target.matches("form[data-typed]")) return;
    const address = window.location.pathname.replace(/preview\/$/, ""); // a refused preview is a form, too
    window.history.replaceState(window.history.state, "", `${address}?${queryOf(event.target)}`);
  });
})();
