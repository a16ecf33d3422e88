// Files that are too large together are named before they are sent: a server may end the connection in the middle of
// them. Without this script the answer says so.
"use strict";

(function () {
  const input = document.querySelector("input[type=file][data-most-mib]");
  const MIB = 2 ** 20;

  input.form.addEventListener("change", () => {
    const files = Array.from(input.form.querySelectorAll("input[type=file]")).flatMap((each) => Array.from(each.files));
    const size = files.reduce((sum, file) => sum + file.size, 0);
    const most = Number(input.dataset.mostMib);
    const text = `These files have ${Math.ceil(size / MIB)} MiB together, and the server takes ${most} MiB. ` + input.dataset.otherWay;
    input.setCustomValidity(size >= most * MIB ? text : "");
    input.reportValidity();
  });

  // The browser does not check the form itself, because the server says what is wrong with other input.
  input.form.addEventListener("submit", (event) => {
    if (input.reportValidity()) return;
    event.preventDefault();
  });
})();
