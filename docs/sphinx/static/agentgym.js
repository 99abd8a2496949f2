// A button on each block of code, which copies what a script or a shell takes: no prompts and no outputs.
"use strict";

function pasted(text) {
  const lines = text.replace(/\n+$/, "").split("\n");
  if (!lines.some((line) => line.startsWith(">>> ")) && !text.startsWith("$ ")) return lines.join("\n") + "\n";
  let typed = false; // "..." goes on with what was typed; elsewhere it is an output
  const kept = lines.filter((line) => (typed = /^(>>>|\$)( |$)/.test(line) || (typed && /^\.\.\.( |$)/.test(line))));
  return kept.map((line) => line.replace(/^(>>>|\.\.\.|\$) ?/, "")).join("\n") + "\n";
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.body.appendChild(document.createElement("textarea")); // over plain HTTP
  area.value = text;
  area.select();
  document.execCommand("copy");
  area.remove();
}

function reach() { // the keyboard scrolls what goes on beyond its edge
  for (const box of document.querySelectorAll("article table, article div.math")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}

addEventListener("resize", reach);
document.addEventListener("DOMContentLoaded", () => {
  reach();
  for (const block of document.querySelectorAll("article .highlight")) {
    const pre = block.querySelector("pre");
    const button = Object.assign(document.createElement("button"), { className: "copy", type: "button", textContent: "Copy" });
    button.setAttribute("aria-label", "Copy this block without prompts and outputs");
    button.addEventListener("click", async () => {
      await copy(pasted(pre.textContent));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    pre.tabIndex = 0; // the keyboard scrolls it, too
    block.append(button);
  }
});
