// @ts-check
"use strict";

/**
 * The state graph of some attempts at one task: states layered by their distance to success, as far as the
 * attempts have found a way; what GiGPO groups by, and what GraphGPO computes its distances on.
 */
const stateGraph = (() => {
  const MOST = 600;
  const LEAST = 416;

  /** @typedef {{hash: string, visits: number, letters: Set<string>, at: [number, number], goal: boolean,
   *   credit: number[], distance: number, depth: number, x: number, y: number}} Node
   * @typedef {{from: Node, to: Node, count: number}} Edge */

  /** Join the states of all attempts. @param {Attempt[]} attempts */
  function join(attempts) {
    /** @type {Map<string, Node>} */
    const nodes = new Map();
    /** @type {Map<string, Edge>} */
    const edges = new Map();
    attempts.forEach(({ film, letter }, place) => {
      film.states.forEach((/** @type {any} */ state, /** @type {number} */ number) => {
        let node = nodes.get(state.hash);
        if (!node) {
          node = {
            hash: state.hash, visits: 0, letters: new Set(), at: [place, number], goal: false, credit: [],
            distance: Infinity, depth: Infinity, x: 0, y: 0,
          };
          nodes.set(state.hash, node);
        }
        node.visits += 1;
        node.letters.add(letter);
        node.depth = Math.min(node.depth, number);
        node.goal ||= film.won && film.differs_at === null && number === film.states.length - 1;
        if (typeof film.steps[number]?.advantage === "number") node.credit.push(film.steps[number].advantage);
        const before = number ? nodes.get(film.states[number - 1].hash) : undefined;
        if (!before) return;
        const name = `${before.hash} ${node.hash}`;
        const edge = edges.get(name) || { from: before, to: node, count: 0 };
        edge.count += 1;
        edges.set(name, edge);
      });
    });
    return { nodes: [...nodes.values()], edges: [...edges.values()] };
  }

  /** Set each node's distance to the nearest success.
   * @param {Node[]} nodes
   * @param {Edge[]} edges */
  function measure(nodes, edges) {
    /** @type {Map<Node, Node[]>} */
    const before = new Map();
    for (const { from, to } of edges) before.set(to, [...(before.get(to) || []), from]);
    let front = nodes.filter((node) => node.goal);
    for (const node of front) node.distance = 0;
    for (let distance = 1; front.length; distance += 1) {
      const next = front.flatMap((node) => before.get(node) || []).filter((node) => node.distance === Infinity);
      front = [...new Set(next)];
      for (const node of front) node.distance = distance;
    }
  }

  /** Place nodes in layers, each in an order that crosses few lines; those without a way to success below.
   * @param {Node[]} nodes
   * @param {Edge[]} edges */
  function place(nodes, edges) {
    const known = nodes.filter((node) => node.distance < Infinity);
    const rest = nodes.filter((node) => node.distance === Infinity);
    const farthest = Math.max(0, ...known.map((node) => node.distance));
    const layers = Math.max(farthest, ...rest.map((node) => node.depth)) + 1;
    const wide = Math.max(26, Math.min(90, 1040 / layers));
    const upper = arrange(known, edges, (node) => layers - 1 - node.distance, 36);
    const lower = arrange(rest, edges, (node) => node.depth, known.length ? upper + 30 : 36);
    const spare = Math.max(0, (LEAST - 48 - wide * (layers - 1)) / 2);
    for (const node of nodes) {
      node.x = spare + 24 + wide * (node.distance < Infinity ? layers - 1 - node.distance : node.depth);
    }
    return { width: 2 * spare + 48 + wide * (layers - 1), height: Math.max(upper, rest.length ? lower : 0) + 10, split: known.length && rest.length ? upper + 12 : 0 };
  }

  /** @param {Node[]} nodes
   * @param {Edge[]} edges
   * @param {(node: Node) => number} layer
   * @param {number} top */
  function arrange(nodes, edges, layer, top) {
    /** @type {Map<number, Node[]>} */
    const layers = new Map();
    for (const node of nodes) layers.set(layer(node), [...(layers.get(layer(node)) || []), node]);
    const most = Math.max(0, ...[...layers.values()].map((each) => each.length));
    const spread = () => {
      for (const each of layers.values()) {
        each.forEach((node, number) => {
          node.y = top + 26 * (number + (most - each.length) / 2);
        });
      }
    };
    spread();
    for (let sweep = 0; sweep < 6; sweep += 1) {
      /** @type {Map<Node, number[]>} */
      const near = new Map();
      for (const { from, to } of edges) {
        near.set(from, [...(near.get(from) || []), to.y]);
        near.set(to, [...(near.get(to) || []), from.y]);
      }
      const middle = (/** @type {Node} */ node) => {
        const ys = near.get(node) || [node.y];
        return ys.reduce((sum, y) => sum + y, 0) / ys.length;
      };
      for (const each of layers.values()) each.sort((one, two) => middle(one) - middle(two));
      spread();
    }
    return top + 26 * Math.max(0, most - 1) + 14;
  }

  /** Draw the graph.
   * @param {Attempt[]} attempts
   * @param {(attempt: number, step: number) => void} go
   * @returns {HTMLElement} */
  function show(attempts, go) {
    const { nodes, edges } = join(attempts);
    const make = agentgym.element;
    const title = make("h2", {}, "State graph");
    if (nodes.length > MOST) {
      return make("section", { class: "graph" }, title, make("p", {}, `${nodes.length} states are too many to draw.`));
    }
    measure(nodes, edges);
    const { width, height, split } = place(nodes, edges);
    const credited = nodes.some((node) => node.credit.length);
    const scale = Math.max(1e-9, ...nodes.map((node) => Math.abs(mean(node.credit))));
    const shared = nodes.filter((node) => node.letters.size > 1).length;
    const count = nodes.length === 1 ? "1 state" : `${nodes.length} states`;
    const about = `${count}${attempts.length > 1 ? `, ${shared} of them shared` : ""}. To the right: nearer to success` +
      (split ? "; below the line: no attempt found a way on to success" : "") +
      `. Larger and thicker: visited more often. ${credited ? "Green and red: mean advantage of what was done there." : ""}`;
    const rule = split ? [films.svg("line", { x1: 0, x2: width, y1: split, y2: split, class: "rule" })] : [];
    const drawn = films.svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "State graph" },
      ...rule,
      ...edges.map((edge) => arrow(edge)),
      ...nodes.map((node) => dot(node, mean(node.credit) / scale, go)),
    );
    return make("section", { class: "graph" }, title, make("p", { class: "soft" }, about), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "State graph, scrolls" }, drawn));
  }

  /** @param {number[]} values */
  const mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0);

  /** As large as a state was visited often, and no larger than its place. @param {Node} node */
  const radius = (node) => Math.min(13, 4 + 1.7 * Math.sqrt(node.visits));

  /** @param {Edge} edge */
  function arrow({ from, to, count }) {
    const width = Math.min(from === to ? 2 : 6, 1 + 1.6 * Math.log2(count));
    const r = radius(from);
    const ahead = to.x > from.x;
    const bend = ahead ? 0 : from.y === to.y ? 22 : 12;
    const [middle, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2 - bend];
    const path =
      from === to
        ? `M ${from.x - 4} ${from.y - r} C ${from.x - 14} ${from.y - r - 18} ${from.x + 14} ${from.y - r - 18} ${from.x + 4} ${from.y - r}`
        : ahead
          ? `M ${from.x} ${from.y} C ${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`
          : `M ${from.x} ${from.y} Q ${middle} ${y} ${to.x} ${to.y}`;
    return films.svg("path", { d: path, "stroke-width": width.toFixed(2), class: ahead ? "edge" : "edge back" });
  }

  /** @param {Node} node
   * @param {number} credit  from -1 to 1
   * @param {(attempt: number, step: number) => void} go */
  function dot(node, credit, go) {
    const letters = [...node.letters].join(", ");
    const far = node.distance < Infinity ? `${node.distance} steps from success` : "no way to success found";
    const label = `State ${node.hash.slice(0, 8)}: ${far}, ${node.visits} visits by ${letters}` +
      (node.credit.length ? `, mean advantage ${films.figure(mean(node.credit))}` : "");
    const kind = ["state", node.goal ? "goal" : "", node.letters.size > 1 ? "shared" : "", node.credit.length ? (credit >= 0 ? "plus" : "minus") : ""];
    const circle = films.svg("circle", { cx: node.x, cy: node.y, r: radius(node).toFixed(1) });
    if (node.credit.length) circle.setAttribute("fill-opacity", (0.15 + 0.85 * Math.abs(credit)).toFixed(2));
    const made = films.svg("g", { class: kind.join(" "), "data-hash": node.hash, tabindex: 0, role: "button", "aria-label": label }, films.svg("title", {}, label), circle);
    made.addEventListener("click", () => go(...node.at));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") go(...node.at);
    });
    return made;
  }

  /** Mark the states at which the attempts stand. @param {Attempt[]} attempts */
  function mark(attempts) {
    const current = new Set(attempts.map(({ film, place: at }) => film.states[at.step].hash));
    for (const node of document.querySelectorAll("[data-hash]")) {
      node.classList.toggle("now", current.has(node.getAttribute("data-hash")));
    }
  }

  return { show, mark };
})();
