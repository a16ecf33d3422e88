// Completion of names in a text field with `data-complete`: "pools", "leaves" (pools and subpools), "users" or "roles". The
// browser shows the suggestions; where the field has a list (`data-into`), a chosen name, or Enter, makes a check box of it.
// Without this script the name is typed.
"use strict";

(function () {
  const WAIT = 150; // milliseconds after a key, before the request to the server
  const ROLE_ENDS = ["admin", "user"];

  // "osmo-team-us" asks for pools that begin with "team".
  function poolOf(text) {
    const rest = text.startsWith("osmo-") ? text.slice(5) : text;
    const end = rest.lastIndexOf("-");
    return end > 0 && ROLE_ENDS.some((role) => role.startsWith(rest.slice(end + 1))) ? rest.slice(0, end) : rest;
  }

  function suggestions(kind, results) {
    if (kind === "roles") {
      const pools = results.filter((hit) => hit.kind === "pool");
      return pools.flatMap((hit) => ROLE_ENDS.map((role) => `osmo-${hit.name}-${role}`));
    }
    const kinds = { users: ["user"], leaves: ["pool", "subpool"] }[kind] || ["pool"];
    return results.filter((hit) => kinds.includes(hit.kind)).map((hit) => hit.name);
  }

  function addName(input, name) {
    const list = document.getElementById(input.dataset.into);
    const known = Array.from(list.querySelectorAll("input")).find((box) => box.value === name);
    if (known) {
      known.checked = true;
    } else {
      const label = document.createElement("label");
      const box = document.createElement("input");
      const text = document.createElement("span");
      Object.assign(box, { type: "checkbox", name: input.dataset.boxes || input.name, value: name, checked: true });
      text.textContent = name;
      label.append(box, text);
      list.append(label);
    }
    input.value = "";
    input.form.dispatchEvent(new Event("input"));
  }

  function complete(input) {
    const kind = input.dataset.complete;
    const list = document.createElement("datalist");
    list.id = `${input.id}-suggestions`;
    document.body.append(list); // a refresh of the page leaves it there
    let timer = 0;

    async function ask() {
      const text = input.value.trim();
      if (!text) return;
      try {
        const answer = await fetch(`/api/search?q=${encodeURIComponent(kind === "roles" ? poolOf(text) : text)}`);
        if (!answer.ok) return;
        const names = suggestions(kind, (await answer.json()).results);
        list.replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
        input.dataset.completed = text;
      } catch {
        // without suggestions the name is typed
      }
    }

    input.addEventListener("input", () => {
      window.clearTimeout(timer);
      const isChosen = Array.from(list.options).some((option) => option.value === input.value);
      if (input.dataset.into && isChosen) addName(input, input.value);
      else timer = window.setTimeout(ask, WAIT);
    });
    input.addEventListener("keydown", (event) => {
      const text = input.value.trim();
      if (event.key !== "Enter" || !input.dataset.into || !text || input.dataset.completed !== text) return;
      const fits = Array.from(list.options, (option) => option.value).filter((name) => name.includes(text));
      if (fits.length !== 1 && !fits.includes(text)) return;
      event.preventDefault(); // the name first, the form with the next Enter
      addName(input, fits.includes(text) ? text : fits[0]);
    });
    return list;
  }

  const lists = new WeakMap();
  document.addEventListener("focusin", ({ target: input }) => {
    if (!input.matches("input[data-complete]")) return;
    if (!lists.has(input)) lists.set(input, complete(input));
    input.setAttribute("list", lists.get(input).id); // a refresh of the page takes it away
  });
  if (document.activeElement.matches("input[data-complete]")) document.activeElement.dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
})();
