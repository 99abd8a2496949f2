// @ts-check
"use strict";

/**
 * One step of an attempt: what was seen, what could be done, what was said and done, and what came of it.
 *
 * @typedef {{place: Place, film: Film, title: string, letter: string, shared: Map<string, string>}} Attempt
 */
const stepView = (() => {
  const make = agentgym.element;

  /** Show a step of an attempt.
   * @param {Attempt} attempt
   * @param {boolean} several  whether it stands beside others
   * @returns {HTMLElement} */
  function show(attempt, several) {
    const { film, place } = attempt;
    const state = film.states[place.step] || {};
    const step = film.steps[place.step];
    const picture = state.drawing ?? state.image;
    const drawn = picture === undefined ? [] : [make("div", { class: "drawing" }, films.drawing(film, picture))];
    const seen = state.observation === undefined ? [] : [observation(film, state, !several || !drawn.length)];
    return make(
      "section",
      { class: several ? "attempt" : "attempt alone", "aria-label": `Attempt ${attempt.letter}` },
      head(attempt),
      differing(film, place.step),
      make("div", { class: "panels" }, make("div", {}, ...drawn, ...seen), make("div", {}, ...did(attempt, step, state, several))),
    );
  }

  /** @param {Attempt} attempt */
  function head(attempt) {
    const { film, place } = attempt;
    const result = film.differs_at !== null ? "differs" : film.won ? "won" : "lost";
    const end = `${films.short(film.end_reason)}, score ${films.figure(film.score)}, return ${films.figure(film.episode_return)}`;
    const measures = Object.entries(film.measures || {}).map(([name, value]) => `${name} ${films.figure(value)}`);
    const spent = film.tokens[1] ? [`${film.tokens.map(films.figure).join(" + ")} tokens`] : [];
    return make(
      "header",
      {},
      make(
        "h2",
        {},
        make("span", { class: "letter" }, attempt.letter),
        " ",
        films.bdi(films.short(attempt.title)),
        make("span", { class: `tag ${result === "won" ? "good" : "bad"}` }, result),
      ),
      make(
        "p",
        { class: "soft" },
        films.bdi([film.label, film.task_type].filter(Boolean).map(films.short).join(" · ")),
        films.bdi(`, task ${films.short(film.task_id)}`),
        `, attempt ${film.rollout}, episode ${place.number}; ${film.length} steps, ${film.invalid} invalid; ${end}`,
        film.iteration ? `; iteration ${film.iteration}, group ${films.short(film.group)}` : "",
      ),
      measures.length + spent.length
        ? make("p", { class: "soft small measures" }, films.bdi([...measures, ...spent].map(films.short).join(" · ")))
        : "",
    );
  }

  /** @param {Film} film @param {number} step */
  function differing(film, step) {
    if (film.differs_at === null) return "";
    const here = step >= film.states.length - 1 ? " This is the last state that came out the same." : "";
    const text = `Played again, this episode departs from its record at step ${film.differs_at}: ${films.short(film.why)}.${here}`;
    return make("p", { class: "alarm" }, films.bdi(text));
  }

  /** @param {Film} film
   * @param {any} state
   * @param {boolean} open */
  function observation(film, state, open) {
    const beside = films.list(film, state.beside);
    const note = beside.length ? make("p", { class: "soft small" }, "Struck through: shown, but not part of the state.") : "";
    return folded("Observation", open, () => [films.block(films.text(film, state.observation), beside), note]);
  }

  /** Fold something away; it is made when it is opened.
   * @param {string} title
   * @param {boolean} open
   * @param {() => (Node | string)[]} content */
  function folded(title, open, content) {
    const box = make("details", {}, make("summary", {}, title));
    const fill = () => {
      if (box.childElementCount === 1) box.append(...content());
    };
    box.addEventListener("toggle", fill);
    if (open) {
      fill();
      box.setAttribute("open", "");
    }
    return box;
  }

  /** @param {Attempt} attempt
   * @param {any} step
   * @param {any} state
   * @param {boolean} several */
  function did(attempt, step, state, several) {
    const { film, place } = attempt;
    const parts = [];
    if (step) parts.push(...action(film, step, place.step + 1));
    else parts.push(make("p", { class: "soft" }, place.step ? "The episode is over." : "Nothing was done."));
    parts.push(...numbers(film, place.step));
    if (step?.response !== undefined) parts.push(...said(film, step, several));
    const actions = films.list(film, state.actions);
    if (actions.length) {
      const open = !several && actions.length <= 40;
      parts.push(folded(`Admissible actions (${actions.length})`, open, () => [listed(film, actions, step)]));
    }
    parts.push(identity(attempt, state));
    return parts;
  }

  /** @param {Film} film @param {any} step @param {number} number  of the state that it leads to */
  function action(film, step, number) {
    if (step.action === undefined) {
      return [make("p", { class: "alarm" }, `No action was played: ${films.short(step.error || "")}`)];
    }
    const refused = step.valid === false ? make("span", { class: "tag bad" }, "rejected") : "";
    const differs = step.differs === undefined ? "" : make("span", { class: "tag bad" }, "differs from here");
    const decisive = number === film.decisive ? make("span", { class: "tag bad" }, "decisive step") : "";
    return [make("div", { class: "played" }, make("strong", {}, "Plays "), films.block(films.text(film, step.action)), refused, differs, decisive)];
  }

  /** Return the numbers of a step.
   * @param {Film} film
   * @param {number} number */
  function numbers(film, number) {
    const step = film.steps[number] || {};
    let total = 0;
    for (const each of film.steps.slice(0, number + 1)) total += each.reward || 0;
    /** @type {[string, any][]} */
    const found = [
      ["reward", step.reward],
      ["return so far", step.reward === undefined ? undefined : total],
      ["steps left to a win", bounds(film.states[number]?.left)],
      ["regret", bounds(step.regret)],
      ["belief regret", bounds(step.belief)],
      ["return to go", step.return_to_go],
      ["advantage", step.advantage],
      ["value", step.value],
      ["process reward", step.process_reward],
      ["tokens", step.tokens ? step.tokens.map(films.figure).filter(Boolean).join(" + ") : undefined],
      ["seconds", step.seconds],
      ["cost", step.cost || undefined],
      ["weights", step.version],
    ];
    const terms = found
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) =>
        make("div", {}, make("dt", {}, name), make("dd", {}, typeof value === "number" ? films.figure(value) : value)),
      );
    return terms.length ? [make("dl", { class: "numbers" }, ...terms)] : [];
  }

  /** Return bounds on a number of steps as people read them. @param {(number | null)[] | undefined} both */
  function bounds(both) {
    const [low, high] = (both || []).map((each) => (each === null || each === Infinity ? "∞" : films.figure(each)));
    return low === high ? low : `${low} to ${high}`;
  }

  /** @param {Film} film
   * @param {any} step
   * @param {boolean} several */
  function said(film, step, several) {
    const read =
      step.format_error === undefined
        ? make("p", { class: "soft small" }, "Read as the action above.")
        : make("div", { class: "alarm" }, "Format error: ", films.block(films.text(film, step.format_error)));
    const parts = [folded("The model said", true, () => [films.block(films.text(film, step.response)), read])];
    const prompt = step.prompt || [];
    if (prompt.length && !several) {
      parts.push(
        folded(`Prompt (${prompt.length} messages)`, false, () =>
          prompt.flatMap((/** @type {[string, number]} */ [role, number]) => [
            make("p", { class: "soft small" }, films.bdi(role)),
            films.block(films.text(film, number)),
          ]),
        ),
      );
    }
    return parts;
  }

  /** @param {Film} film
   * @param {string[]} actions
   * @param {any} step */
  function listed(film, actions, step) {
    const played = step?.action === undefined ? null : films.text(film, step.action);
    const items = actions.slice(0, 400).map((each) => {
      const chosen = each === played;
      return make("li", chosen ? { class: "chosen", "aria-current": "true" } : {}, films.bdi(each.slice(0, 400)));
    });
    if (played !== null && !actions.includes(played)) {
      items.unshift(make("li", { class: "chosen own", "aria-current": "true" }, films.bdi(played.slice(0, 400)), " (typed)"));
    }
    return make("ul", { class: "actions" }, ...items);
  }

  /** @param {Attempt} attempt @param {any} state */
  function identity(attempt, state) {
    const letters = attempt.shared.get(state.hash) || "";
    const shared = letters.length > 1 ? make("span", { class: "tag here" }, `shared by ${[...letters].join(", ")}`) : "";
    const hash = make("p", { class: "small" }, make("code", {}, state.hash || ""), " ", shared);
    return folded("State", true, () => {
      if (state.state === undefined) return [hash];
      return [hash, folded("What the hash covers", false, () => [films.block(films.text(attempt.film, state.state))])];
    });
  }

  const LINES = [
    { name: "steps left to a win", of: (/** @type {any} */ turn) => (turn.left ? turn.left[0] ?? Infinity : undefined) },
    { name: "value", of: (/** @type {any} */ step) => step.value },
    { name: "advantage", of: (/** @type {any} */ step) => step.advantage },
    { name: "process reward", of: (/** @type {any} */ step) => step.process_reward },
  ];

  /** Draw an attempt as a strip of its steps, and below it what the algorithm made of them.
   * @param {Attempt} attempt
   * @param {number} length  of the longest attempt
   * @param {(step: number) => void} go
   * @returns {HTMLElement} */
  function strip(attempt, length, go) {
    const { film, place } = attempt;
    const wide = 900 / (length + 1);
    const cells = film.states.map((/** @type {any} */ state, /** @type {number} */ number) => {
      const step = film.steps[number];
      const last = number === film.states.length - 1;
      const shared = (attempt.shared.get(state.hash) || "").length > 1;
      const kind = [
        "cell",
        number === place.step ? "now" : "",
        step?.valid === false ? "invalid" : step?.reward > 0 ? "paid" : step?.reward < -0.5 ? "cost" : "",
        last && film.won && film.differs_at === null ? "goal" : "",
        shared ? "shared" : "",
      ];
      const size = { x: number * wide + 1, y: 2, width: Math.max(1, wide - 2), height: 14, rx: 2 };
      const cell = films.svg("rect", { ...size, class: kind.join(" ") });
      cell.addEventListener("click", () => go(number));
      return cell;
    });
    const turns = film.states.map((/** @type {any} */ state, /** @type {number} */ number) => ({ ...state, ...film.steps[number] }));
    const known = LINES.filter(({ of }) => turns.some((/** @type {any} */ turn) => typeof of(turn) === "number"));
    const lines = known.map(({ name, of }) => line(turns, name, of, wide));
    const tall = known.length ? 90 : 18;
    const key = known.map(({ name, of }) => {
      const values = turns.map(of).filter((/** @type {any} */ value) => typeof value === "number");
      const range = bounds([Math.min(...values), Math.max(...values)]);
      return make("span", { class: `key ${name.replaceAll(" ", "-")}` }, `${name}: ${range}`);
    });
    if (film.decisive) {
      const x = film.decisive * wide;
      lines.push(films.svg("line", { x1: x, x2: x, y1: 0, y2: tall, class: "decisive" }));
      key.push(make("span", { class: "key decisive" }, `┊ decisive step: ${film.decisive}, no win in time after it`));
    }
    return make(
      "div",
      { class: "strip" },
      make("span", { class: "letter" }, attempt.letter),
      make("div", {}, films.svg("svg", { viewBox: `0 0 900 ${tall}`, preserveAspectRatio: "none", "aria-hidden": "true", class: tall > 20 ? "tall" : "" }, ...cells, ...lines), ...key),
    );
  }

  /** Return a line over the steps, in a scale of its own, with zero where the scale has it.
   * @param {any[]} turns  states with what was done in them
   * @param {string} name
   * @param {(turn: any) => number | undefined} of
   * @param {number} wide */
  function line(turns, name, of, wide) {
    const values = turns.map((turn) => of(turn) ?? NaN);
    const known = values.filter(Number.isFinite);
    if (values.includes(Infinity)) known.push(1.5 * Math.max(1, ...known));
    const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
    const y = (/** @type {number} */ value) => 86 - (62 * (Math.min(value, high) - low)) / (high - low || 1);
    const points = values
      .map((/** @type {number} */ value, /** @type {number} */ step) => [step * wide + wide / 2, y(value)])
      .filter((/** @type {number[]} */ point) => !Number.isNaN(point[1]));
    return films.svg(
      "g",
      { class: name.replaceAll(" ", "-") },
      films.svg("line", { x1: 0, x2: 900, y1: y(0), y2: y(0), class: "zero" }),
      films.svg("polyline", { points: points.map((/** @type {number[]} */ p) => p.join(",")).join(" ") }),
    );
  }

  return { show, strip };
})();
