// @ts-check
"use strict";

/** The viewer's page: what its address names, the controls, and what is shown of each attempt. */
(() => {
  const make = agentgym.element;
  const EVERY = 600;
  const LETTERS = "ABCDEFGH";
  /** @type {any[]} */
  let runs = [];
  /** @type {Attempt[]} */
  let attempts = [];
  /** @type {number | undefined} */
  let playing;
  let asked = 0;

  /** @param {string} id */
  const by = (id) => /** @type {any} */ (document.getElementById(id));

  /** Return what the address names: a run, and steps of episodes. */
  function named() {
    const parts = decodeURIComponent(location.hash.slice(1)).split("+").filter(Boolean).slice(0, 8);
    const places = parts.map((part) => {
      const [run, number, step] = part.split("/");
      return { run, number: number ? Number(number) : 0, step: Math.max(0, Math.floor(Number(step)) || 0) };
    });
    const known = places[0]?.run || runs[0]?.key;
    return { run: known, places: places.filter((place) => place.number > 0) };
  }

  /** Show what the address names. */
  async function follow() {
    const turn = ++asked;
    stop();
    const { run, places } = named();
    if (!run) {
      by("notice").textContent = "No episodes were put on this site.";
      return;
    }
    try {
      const list = await films.episodes(run);
      /** @type {number[]} */
      const packs = [];
      for (const place of places) {
        const { episodes } = await films.episodes(place.run);
        const found = episodes.find((/** @type {any} */ each) => each.number === place.number);
        if (!found) throw new Error(`This run has no episode ${place.number}.`);
        if (!found.pack) throw new Error(`Episode ${place.number} is listed only: this site has no film of it.`);
        packs.push(found.pack);
      }
      const loaded = await Promise.all(places.map((place, at) => films.load(place.run, place.number, packs[at])));
      if (turn !== asked) return;
      by("notice").textContent = "";
      by("run").value = run;
      offerOthers(run);
      episodeList.show(list, places[0]?.number || 0);
      open(places, loaded);
    } catch (error) {
      if (turn !== asked) return;
      by("notice").textContent = films.short(String(error instanceof Error ? error.message : error));
    }
  }

  /** Open episodes at their steps.
   * @param {Place[]} places
   * @param {Film[]} loaded */
  function open(places, loaded) {
    /** @type {Map<string, string>} */
    const shared = new Map();
    loaded.forEach((film, number) => {
      for (const hash of new Set(film.states.map((/** @type {any} */ state) => state.hash))) {
        const key = /** @type {string} */ (hash);
        shared.set(key, (shared.get(key) || "") + LETTERS[number]);
      }
    });
    const tasks = new Set(loaded.map((film) => `${film.env} ${film.task_id}`));
    attempts = loaded.map((film, number) => ({
      film,
      shared: tasks.size > 1 ? new Map() : shared,
      place: { ...places[number], step: Math.min(places[number].step, film.states.length - 1) },
      title: runs.find((run) => run.key === places[number].run)?.title || places[number].run,
      letter: LETTERS[number],
    }));
    const stage = by("stage");
    if (!attempts.length) {
      stage.replaceChildren(make("p", { class: "soft" }, "Choose an episode."));
      return;
    }
    stage.replaceChildren(controls(), make("div", { id: "strips" }), make("div", { id: "shown", class: attempts.length > 1 ? "several" : "" }), ...(tasks.size === 1 ? [stateGraph.show(attempts, (_, step) => go(step))] : []));
    draw();
  }

  const last = () => Math.max(...attempts.map(({ film }) => film.states.length - 1));

  const now = () => Math.max(...attempts.map(({ place }) => place.step));

  function controls() {
    /** @type {[string, string, () => void][]} */
    const buttons = [
      ["first", "|◀", () => go(0)],
      ["back", "◀", () => go(now() - 1)],
      ["play", "▶ Play", toggle],
      ["on", "▶", () => go(now() + 1)],
      ["last", "▶|", () => go(last())],
    ];
    const names = { first: "First step", back: "One step back", play: "Play", on: "One step on", last: "Last step" };
    return make(
      "div",
      { class: "controls", role: "group", "aria-label": "Steps" },
      ...buttons.map(([id, sign, click]) =>
        make("button", { type: "button", id, click, "aria-label": /** @type {any} */ (names)[id] }, sign),
      ),
      make("input", {
        type: "range", id: "slider", min: 0, max: last(), value: now(), "aria-label": "Step",
        input: (/** @type {any} */ event) => go(Number(event.target.value)),
      }),
      make("output", { id: "where" }),
    );
  }

  /** Draw the step at which each attempt stands. */
  function draw() {
    const step = now();
    by("slider").value = step;
    by("where").textContent = `Step ${step} of ${last()}`;
    by("strips").replaceChildren(...attempts.map((attempt) => stepView.strip(attempt, last(), go)));
    const several = attempts.length > 1;
    by("shown").replaceChildren(...attempts.map((attempt) => stepView.show(attempt, several)));
    stateGraph.mark(attempts);
  }

  /** Go to a step in all attempts; the shorter ones stay at their end. @param {number} step */
  function go(step) {
    const wanted = Math.max(0, Math.min(last(), step));
    for (const { film, place } of attempts) place.step = Math.min(wanted, film.states.length - 1);
    const hash = attempts.map(({ place }) => `${place.run}/${place.number}/${place.step}`).join("+");
    history.replaceState(null, "", `#${hash}`);
    draw();
  }

  function toggle() {
    if (playing !== undefined) return stop();
    if (now() === last()) go(0);
    by("play").textContent = "❚❚ Pause";
    playing = window.setInterval(() => (now() >= last() ? stop() : go(now() + 1)), EVERY);
    return undefined;
  }

  function stop() {
    window.clearInterval(playing);
    playing = undefined;
    if (by("play")) by("play").textContent = "▶ Play";
  }

  /** Offer the other runs of a suite to compare with. @param {string} run */
  function offerOthers(run) {
    const own = runs.find((each) => each.key === run);
    const others = runs.filter((each) => each.key !== run && own && each.suite === own.suite && own.kind === "run");
    const field = by("of-other");
    const before = field.value;
    field.replaceChildren(
      make("option", { value: "" }, "no other"),
      ...others.map((each) => make("option", { value: each.key }, films.short(each.title))),
    );
    field.value = others.some((each) => each.key === before) ? before : "";
    field.closest("label").hidden = !others.length;
  }

  /** @param {KeyboardEvent} event */
  function press(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (!attempts.length || event.ctrlKey || event.altKey || event.metaKey) return;
    if (target.closest("input, select, textarea, pre, .scroll") && target.id !== "slider") return;
    const steps = { ArrowLeft: now() - 1, ArrowRight: now() + 1, Home: 0, End: last() };
    const step = /** @type {Record<string, number>} */ (steps)[event.key];
    if (step === undefined && event.key !== "p") return;
    event.preventDefault();
    if (step === undefined) toggle();
    else go(step);
  }

  async function begin() {
    if (by("filters")) {
      runs = await agentgym.load("runs", "data/runs.js").catch(() => []);
      by("run").replaceChildren(
        ...runs.map((run) =>
          make("option", { value: run.key }, films.short(`${run.suite}: ${run.title} (${run.count})`)),
        ),
      );
      by("run").addEventListener("change", () => {
        location.hash = by("run").value;
      });
      episodeList.begin();
      window.addEventListener("hashchange", () => void follow());
      await follow();
    } else {
      const alone = await agentgym.load("alone", "");
      runs = [alone.run];
      const film = await films.load(alone.run.key, alone.number, 1);
      const step = Number(location.hash.split("/")[2]) || 0;
      open([{ run: alone.run.key, number: alone.number, step }], [film]);
    }
    document.addEventListener("keydown", press);
  }

  void begin();
})();
