// @ts-check
"use strict";

/**
 * Films as they are loaded: texts, drawings and lists by number, made into nodes that hold text and nothing else.
 *
 * @typedef {{[name: string]: any}} Film  what `agentgym.site.viewer_data` writes of an episode
 * @typedef {{run: string, number: number, step: number}} Place  a step of an episode of a run
 */
const films = (() => {
  const MOST = 4000;
  const UNSEEN = new RegExp(
    "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]" +
      "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
    "g",
  );
  const SVG = "http://www.w3.org/2000/svg";
  const SVG_TAGS = new Set(
    "svg g path rect circle ellipse line polyline polygon text tspan title desc".split(" "),
  );

  /** Return a text of a film.
   * @param {Film} film
   * @param {number} number
   * @returns {string} */
  function text(film, number) {
    const entry = film.texts[number];
    return Array.isArray(entry) ? entry.map((line) => text(film, line)).join("\n") : entry;
  }

  /** Return a list of texts.
   * @param {Film} film
   * @param {number | undefined} number
   * @returns {string[]} */
  function list(film, number) {
    return number === undefined ? [] : film.lists[number].map((/** @type {number} */ each) => text(film, each));
  }

  /** Make an SVG element.
   * @param {string} tag
   * @param {Record<string, string | number>} attributes
   * @param {...(Node | string)} children
   * @returns {SVGElement} */
  function svg(tag, attributes, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    made.append(...children);
    return made;
  }

  /** Make a drawing, node by node; the tags and attributes were chosen from a list when it was written.
   * @param {Film} film
   * @param {number} number
   * @returns {Element} */
  function drawing(film, number) {
    const [tag, attributes, ...rest] = film.nodes[number];
    const children = rest.map((/** @type {number} */ child) =>
      child < 0 ? bdi(text(film, -1 - child).slice(0, MOST)) : drawing(film, child),
    );
    if (SVG_TAGS.has(tag)) {
      const plain = rest.map((/** @type {number} */ child, /** @type {number} */ place) =>
        child < 0 ? escaped(text(film, -1 - child)) : children[place],
      );
      return svg(tag, attributes, ...plain);
    }
    return agentgym.element(tag, attributes, ...children);
  }

  /** Return a character that nobody can see, or that turns others around, as an escape.
   * @param {string} character */
  const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

  /** Return a text with such characters written as escapes. @param {string} value */
  const escaped = (value) => value.replace(UNSEEN, escape);

  /** Return the beginning of a text that should be short, such as a name. @param {string} value */
  const short = (value) => escaped(value.slice(0, 200));

  /** Return a text's nodes: its characters, and escapes that look like escapes.
   * @param {string} value
   * @returns {(Node | string)[]} */
  function pieces(value) {
    const found = [];
    let end = 0;
    for (const match of value.matchAll(UNSEEN)) {
      found.push(value.slice(end, match.index), agentgym.element("span", { class: "escape" }, escape(match[0])));
      end = match.index + 1;
    }
    found.push(value.slice(end));
    return found.filter((each) => each !== "");
  }

  /** Return a text that turns nothing around it.
   * @param {string} value
   * @returns {HTMLElement} */
  function bdi(value) {
    return agentgym.element("bdi", {}, ...pieces(value));
  }

  /** Return a block of text, cut where it is long, with a button that shows the rest.
   * @param {string} value
   * @param {string[]} [beside]  pieces of it that are not part of the state
   * @returns {HTMLElement} */
  function block(value, beside = []) {
    const box = agentgym.element("pre", { class: "words", tabindex: 0 }, ...marked(value.slice(0, MOST), beside));
    if (value.length <= MOST) return box;
    const more = agentgym.element(
      "button",
      { type: "button", click: () => box.replaceChildren(...marked(value, beside)) },
      `Show all ${value.length.toLocaleString("en")} characters`,
    );
    box.append("… ", more);
    return box;
  }

  /** @param {string} value
   * @param {string[]} beside
   * @returns {(Node | string)[]} */
  function marked(value, beside) {
    const first = beside
      .map((piece) => ({ piece, at: value.indexOf(piece) }))
      .filter(({ at }) => at >= 0)
      .sort((one, two) => one.at - two.at)[0];
    if (!first) return [bdi(value)];
    const { piece, at } = first;
    const note = agentgym.element("span", { class: "beside", title: "not covered by the state hash" }, bdi(piece));
    return [bdi(value.slice(0, at)), note, ...marked(value.slice(at + piece.length), beside)];
  }

  /** Return a number as people read it. @param {number | null | undefined} value */
  function figure(value) {
    if (value === null || value === undefined) return "";
    return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
  }

  /** @type {Map<string, any>} */
  const packs = new Map();

  /** Return what was written as JSON, deflated, in base 64. @param {string} packed */
  function inflate(packed) {
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  /** Return columns as rows; a column of one value is that of all rows, and what is null is left out. @param {any} columns */
  function rows({ count, ...columns }) {
    return Array.from({ length: count }, (_, place) => {
      const cells = Object.entries(columns).map(([name, values]) => [name, values[values.length === 1 ? 0 : place]]);
      return Object.fromEntries(cells.filter(([, value]) => value !== null));
    });
  }

  /** Load an episode.
   * @param {string} run
   * @param {number} number
   * @param {number} pack  number of the script file that holds it, among others
   * @returns {Promise<Film>} */
  async function load(run, number, pack) {
    if (!/^[0-9a-f]{12}$/.test(run) || !Number.isInteger(number)) throw new Error("The address names no episode.");
    const key = `films/${run}/${pack}`;
    if (!packs.has(key)) packs.set(key, await agentgym.load(key, `data/${run}/${pack}.js`).then(inflate));
    const { films: packed, texts, nodes, lists } = packs.get(key);
    const film = packed[number];
    if (!film.decoded) {
      Object.assign(film, { texts, nodes, lists, states: rows(film.states), steps: rows(film.steps) });
      for (const state of film.states) state.hash = texts[state.hash];
      for (const name of ["label", "task_id", "task_type", "end_reason", "env", "why"]) {
        film[name] = text(film, film[name]);
      }
      film.decoded = true;
    }
    return film;
  }

  /** Load the list of a run's episodes, as objects.
   * @param {string} run
   * @returns {Promise<any>} */
  async function episodes(run) {
    if (!/^[0-9a-f]{12}$/.test(run)) throw new Error("The address names no run.");
    const found = await agentgym.load(`episodes/${run}`, `data/${run}/episodes.js`);
    if (Array.isArray(found.episodes[0])) {
      found.episodes = found.episodes.map((/** @type {any[]} */ row) => {
        /** @type {any} */
        const made = {};
        found.columns.forEach((/** @type {string} */ name, /** @type {number} */ place) => {
          made[name] = row[place];
        });
        return made;
      });
    }
    return found;
  }

  return { text, list, svg, drawing, short, bdi, block, figure, load, episodes };
})();
