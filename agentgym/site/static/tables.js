// @ts-check
"use strict";

/** Sorting tables by a column, and filtering rows: on top of tables that are complete without it. */
(() => {
  /**
   * What a cell is sorted by: what the page says, else a number that leads its text, else the text.
   * @param {HTMLTableRowElement} row
   * @param {number} column
   * @returns {number | string}
   */
  function sortKey(row, column) {
    const cell = row.cells[column];
    if (!cell) return "";
    const said = cell.dataset.sort;
    const text = said === undefined ? (cell.textContent ?? "").trim() : said;
    const number = Number.parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  }

  /**
   * Numbers before texts, empty cells last, in either direction.
   * @param {number | string} first
   * @param {number | string} second
   * @param {number} direction
   */
  function compare(first, second, direction) {
    const empty = [first, second].map((key) => key === "" || key === "-");
    if (empty[0] || empty[1]) return Number(empty[0]) - Number(empty[1]);
    if (typeof first === "number" && typeof second === "number") return direction * (first - second);
    if (typeof first !== typeof second) return typeof first === "number" ? -1 : 1;
    return direction * String(first).localeCompare(String(second), "en");
  }

  /**
   * Let the heads of a table sort it.
   * @param {HTMLTableElement} table
   */
  function makeSortable(table) {
    const heads = [...table.querySelectorAll("thead th")];
    const body = table.tBodies[0];
    if (!body) return;
    heads.forEach((head, column) => {
      const name = head.textContent ?? "";
      const button = agentgym.element("button", { type: "button", class: "sort", click: sort }, name);
      head.replaceChildren(button);

      function sort() {
        const rising = head.getAttribute("aria-sort") === "descending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const rows = [...body.rows].map((row) => ({ row, key: sortKey(row, column) }));
        rows.sort((a, b) => compare(a.key, b.key, rising ? 1 : -1));
        body.append(...rows.map((each) => each.row));
      }
    });
  }

  /**
   * Let a form hide the rows that do not have what it asks for.
   * @param {HTMLFormElement} form
   */
  function makeFilter(form) {
    const body = document.getElementById(form.dataset.filters ?? "");
    const output = form.querySelector("output");
    if (!body || !output) return;
    const rows = /** @type {HTMLElement[]} */ ([...body.children]);
    const selects = [...form.querySelectorAll("select")];
    if (!selects.length) return;
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => {
      const asked = selects.filter((select) => select.selectedIndex > 0);
      let left = 0;
      for (const row of rows) {
        const fits = asked.every((select) => row.getAttribute(`data-${select.name}`) === select.value);
        row.hidden = !fits;
        left += Number(fits);
      }
      output.textContent = asked.length ? `${left} of ${rows.length} rows` : "";
    });
    form.dispatchEvent(new Event("change"));
  }

  /** Say above a table that scrolls sideways that it does, and fade its edge until the end is seen. @param {Element} box */
  function showScrolling(box) {
    const cue = agentgym.element("p", { class: "cue", "aria-hidden": "true" }, "Scrolls sideways →");
    box.before(cue);
    const look = () => {
      cue.hidden = box.scrollWidth <= box.clientWidth + 1;
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
  }

  for (const box of document.querySelectorAll(".scroll")) showScrolling(box);
  for (const table of document.querySelectorAll("table[data-sorts]")) {
    makeSortable(/** @type {HTMLTableElement} */ (table));
  }
  for (const form of document.querySelectorAll("form[data-filters]")) {
    makeFilter(/** @type {HTMLFormElement} */ (form));
  }
})();
