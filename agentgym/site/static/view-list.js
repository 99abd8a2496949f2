// @ts-check
"use strict";

/** The list of a run's episodes: filters, and rows that are drawn only where they can be seen. */
const episodeList = (() => {
  const ROW = 30;
  const make = agentgym.element;
  /** @type {any} */
  let run = null;
  /** @type {any[]} */
  let shown = [];
  let active = 0;
  /** @type {Map<string, any> | null} */
  let other = null;
  /** @type {Set<number>} */
  const chosen = new Set();

  /** @param {string} id */
  const by = (id) => /** @type {any} */ (document.getElementById(id));

  /** @param {any} episode */
  const task = (episode) => `${episode.label}/${episode.task_id}/${episode.rollout}/${episode.iteration}/${episode.group}`;

  /** Show a run.
   * @param {any} episodes  as `films.episodes` loads them
   * @param {number} open  the episode that is open, or 0 */
  function show(episodes, open) {
    if (run !== episodes) {
      run = episodes;
      chosen.clear();
      other = null;
      fill("of-env", run.episodes.map((/** @type {any} */ each) => each.label));
      fill("of-end", run.episodes.map((/** @type {any} */ each) => each.end_reason));
      fill("of-iteration", run.kind === "training" ? run.episodes.map((/** @type {any} */ e) => String(e.iteration)) : []);
      by("of-other").value = "";
      filter();
    }
    const place = shown.findIndex((each) => each.number === open);
    if (place >= 0) move(place);
  }

  /** Offer the values that there are.
   * @param {string} id
   * @param {string[]} values */
  function fill(id, values) {
    const field = by(id);
    const names = [...new Set(values)];
    field.replaceChildren(
      make("option", { value: "" }, "any"),
      ...names.map((name) => make("option", { value: name }, films.short(name))),
    );
    field.closest("label").hidden = names.length < 2;
  }

  /** Apply the filters. */
  function filter() {
    const [env, end, won, invalid, iteration] = ["of-env", "of-end", "of-won", "of-invalid", "of-iteration"].map(
      (id) => by(id).value,
    );
    const [least, most] = [Number(by("of-least").value || 0), Number(by("of-most").value || Infinity)];
    const wanted = by("of-task").value.trim().toLowerCase();
    shown = run.episodes.filter(
      (/** @type {any} */ each) =>
        (!env || each.label === env) &&
        (!end || each.end_reason === end) &&
        (!iteration || String(each.iteration) === iteration) &&
        (!won || (won === "differs" ? each.differs_at !== null : each.won === (won === "won"))) &&
        (!invalid || each.invalid > 0 === (invalid === "some")) &&
        each.length >= least &&
        each.length <= most &&
        (!wanted || `${each.task_id} ${each.task_type} ${each.number}`.toLowerCase().includes(wanted)) &&
        (other === null || differs(each)),
    );
    by("count").textContent =
      `${shown.length.toLocaleString("en")} of ${run.episodes.length.toLocaleString("en")} episodes`;
    by("rows").firstElementChild.style.height = `${shown.length * ROW}px`;
    active = 0;
    by("rows").scrollTop = 0;
    draw();
  }

  /** Return whether another agent came to something else at the same attempt. @param {any} each */
  function differs(each) {
    const theirs = other?.get(task(each));
    return theirs !== undefined && (theirs.won !== each.won || theirs.score !== each.score);
  }

  /** Draw the rows that can be seen. */
  function draw() {
    const box = by("rows");
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 5);
    const last = Math.min(shown.length, first + Math.ceil(box.clientHeight / ROW) + 10);
    const rows = shown.slice(first, last).map((each, place) => row(each, first + place));
    box.firstElementChild.replaceChildren(...rows);
    const here = shown.length ? `row-${active}` : "";
    if (active >= first && active < last && here) box.setAttribute("aria-activedescendant", here);
    else box.removeAttribute("aria-activedescendant");
    by("beside").disabled = chosen.size < 2;
    by("beside").textContent = `Side by side (${chosen.size})`;
    by("attempts").disabled = !shown.length;
  }

  /** @param {any} each @param {number} place */
  function row(each, place) {
    const mark = each.differs_at !== null ? "differs" : each.won ? "won" : "lost";
    const cells = [
      ["pick", chosen.has(each.number) ? "☑" : "☐"],
      ["number", String(each.number)],
      [mark, { differs: `⚠ step ${each.differs_at}`, won: "✓ won", lost: "✗ lost" }[mark] || ""],
      ["env", films.short(each.task_type ? `${each.label.slice(0, 99)}, ${each.task_type}` : each.label)],
      ["task", films.short(each.task_id.slice(0, 8))],
      ["score", films.figure(each.score)],
      ["steps", each.length === 1 ? "1 step" : `${each.length} steps`],
      ["invalid", each.invalid ? `${each.invalid} invalid` : ""],
      ["end", films.short(each.end_reason)],
    ];
    const made = make(
      "div",
      {
        role: "option",
        id: `row-${place}`,
        class: place === active ? "row active" : each.pack ? "row" : "row bare",
        "aria-selected": String(chosen.has(each.number)),
        "aria-posinset": place + 1,
        "aria-setsize": shown.length,
        click: (/** @type {any} */ event) => {
          active = place;
          if (event.target.classList.contains("pick")) pick();
          else open();
        },
      },
      ...cells.map(([name, value]) => make("span", { class: name }, value)),
    );
    made.style.top = `${place * ROW}px`;
    return made;
  }

  /** Make a row the active one, and bring it into view. @param {number} place */
  function move(place) {
    const box = by("rows");
    active = Math.max(0, Math.min(shown.length - 1, place));
    if (active * ROW < box.scrollTop) box.scrollTop = active * ROW;
    if ((active + 1) * ROW > box.scrollTop + box.clientHeight) box.scrollTop = (active + 1) * ROW - box.clientHeight;
    draw();
  }

  /** Open the active episode. */
  function open() {
    const each = shown[active];
    draw();
    if (each) location.hash = `${run.key}/${each.number}/0`;
  }

  /** Choose the active episode for a comparison, or no longer. */
  function pick() {
    const number = shown[active]?.number;
    if (number === undefined) return;
    if (!chosen.delete(number) && chosen.size < 8) chosen.add(number);
    draw();
  }

  /** Open what was chosen, side by side. */
  function compare() {
    location.hash = [...chosen].map((number) => `${run.key}/${number}/0`).join("+");
  }

  /** Open up to eight attempts at the active episode's task: this run's, then those of others. */
  async function attempts() {
    const each = shown[active];
    /** @param {any} theirs */
    const same = (theirs) =>
      theirs.label === each.label &&
      theirs.task_id === each.task_id &&
      theirs.pack &&
      (theirs.iteration === each.iteration && theirs.group === each.group);
    const found = run.episodes.filter(same).map((/** @type {any} */ e) => `${run.key}/${e.number}/0`);
    for (const known of await agentgym.load("runs", "data/runs.js")) {
      if (found.length >= 8 || run.kind === "training") break;
      if (known.key === run.key || known.suite !== run.suite) continue;
      const theirs = await films.episodes(known.key);
      found.push(...theirs.episodes.filter(same).slice(0, 2).map((/** @type {any} */ e) => `${known.key}/${e.number}/0`));
    }
    location.hash = found.slice(0, 8).join("+");
  }

  /** Filter by the differences from another run. */
  async function against() {
    const key = by("of-other").value;
    other = null;
    if (key) other = new Map((await films.episodes(key)).episodes.map((/** @type {any} */ each) => [task(each), each]));
    filter();
  }

  /** Listen to the page, once. */
  function begin() {
    by("filters").addEventListener("input", (/** @type {any} */ event) => {
      if (event.target.id === "of-other") void against();
      else if (event.target.id !== "run") filter();
    });
    by("filters").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
    by("rows").addEventListener("scroll", () => requestAnimationFrame(draw));
    by("rows").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const page = Math.floor(by("rows").clientHeight / ROW);
      const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
      const by_ = /** @type {Record<string, number>} */ (moves)[event.key];
      if (by_ !== undefined) move(active + by_);
      else if (event.key === "Enter") open();
      else if (event.key === " ") pick();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    by("beside").addEventListener("click", compare);
    by("attempts").addEventListener("click", () => void attempts());
    new ResizeObserver(() => run && draw()).observe(by("rows"));
  }

  return { begin, show };
})();
