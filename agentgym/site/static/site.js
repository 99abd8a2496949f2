// @ts-check
"use strict";

/**
 * What every page shares: data handed over by script files, and elements made of text.
 * Pages are complete without it; it sorts tables, filters rows and says what was left out.
 */
const agentgym = (() => {
  /** @type {Map<string, any>} */
  const values = new Map();
  /** @type {Map<string, Promise<any>>} */
  const loading = new Map();

  /**
   * Take a value from a data script.
   * @param {string} key
   * @param {any} value
   */
  function data(key, value) {
    values.set(key, value);
  }

  /**
   * Load a data script once, and return what it hands over.
   * @param {string} key
   * @param {string} src
   * @returns {Promise<any>}
   */
  function load(key, src) {
    if (values.has(key)) return Promise.resolve(values.get(key));
    const begun = loading.get(key);
    if (begun) return begun;
    /** @type {Promise<any>} */
    const promise = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = src;
      script.addEventListener("load", () => {
        script.remove();
        if (values.has(key)) resolve(values.get(key));
        else reject(new Error(`${src} holds no ${key}`));
      });
      script.addEventListener("error", () => {
        script.remove();
        loading.delete(key);
        reject(new Error(`cannot load ${src}`));
      });
      document.head.append(script);
    });
    loading.set(key, promise);
    return promise;
  }

  /**
   * Make an element.
   * @param {string} tag
   * @param {Record<string, string | number | boolean | ((event: any) => void)>} [attributes]
   *     values of true are empty attributes, of false none; functions listen to the event of that name
   * @param {...(Node | string)} children
   * @returns {HTMLElement}
   */
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value !== false) made.setAttribute(name, value === true ? "" : String(value));
    }
    made.append(...children);
    return made;
  }

  return { data, load, element };
})();
