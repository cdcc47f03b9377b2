// The frame: text on top, views below it, one at a time, and the derivation beside them.

import { count, h, num, say, visible } from "./dom.js";
import { get, isSaved, Refused } from "./api.js";
import { address, list, select, state, subscribe } from "./state.js";
import { again, app, ask, toggle } from "./app.js";
import { derivation } from "./derive.js";
import { savePage } from "./saved.js";
import * as text from "./views/text.js";
import * as map from "./views/map.js";
import * as embeddings from "./views/embeddings.js";
import * as attention from "./views/attention.js";
import * as heads from "./views/heads.js";
import * as links from "./views/links.js";
import * as residual from "./views/residual.js";
import * as next from "./views/next.js";
import * as generation from "./views/generation.js";
import * as translation from "./views/translation.js";
import * as classifier from "./views/classifier.js";

const VIEWS = { text, map, embeddings, attention, heads, links, residual, next, generation, translation, classifier };
const ASKS = ["text", "target", "more", "off", "mute"]; // changes for which the model must run
const SIZES = [1, 1.15, 1.3, 1.6];
const find = (id) => document.getElementById(id);
const remember = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private */ } },
};
let ticket = 0, waiting = null;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  remember.set("theme", theme);
}
function setSize(size) {
  document.documentElement.style.setProperty("--size", size);
  remember.set("size", size);
}

function field(key, label, placeholder, value) {
  const box = h(
    "textarea",
    {
      rows: 2,
      key: `field ${key}`,
      spellcheck: "false",
      placeholder,
      maxlength: app.model.limits.characters,
      disabled: isSaved,
      oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => send(key, box), 350); },
      onkeydown: (event) => {
        if (event.key === "Enter" && !event.shiftKey) {
          event.preventDefault();
          clearTimeout(waiting);
          send(key, box);
        }
      },
    },
  );
  box.value = value ?? "";
  return h("label", {}, label, box);
}
function send(key, box) {
  const isOwn = key === "target" && box.value === "";
  select({
    [key]: isOwn ? null : box.value,
    more: "",
    q: "",
    k: "",
    cell: "",
    step: "",
    ...(key === "text" && state().target === null ? { target: null } : {}),
  });
}

function header() {
  const model = app.model, translates = model.shape === "encoder-decoder";
  const depth = model.stacks.map((stack) => `${stack.blocks} ${stack.name} blocks`).join(", ");
  find("top").replaceChildren(
    h(
      "div",
      { class: "brand" },
      h("h1", {}, "clearhead"),
      h("p", {}, `${visible(model.name)}: ${model.shape}, ${depth}, ${count(model.weights)} weights`),
    ),
    h(
      "div",
      { class: "texts" },
      field("text", translates ? "Source" : "Text", "Type a text", state().text ?? model.example),
      translates ? field("target", "Target", "Empty: the model's own translation", state().target) : null,
    ),
    h(
      "div",
      { class: "tools", role: "group", "aria-label": "Page" },
      h(
        "button",
        {
          type: "button",
          title: "Larger text, for a projector",
          "aria-label": "Text size",
          onclick: () => {
            setSize(SIZES[(SIZES.indexOf(Number(remember.get("size") || 1)) + 1) % SIZES.length]);
            draw();
          },
        },
        "A+",
      ),
      h(
        "button",
        {
          type: "button",
          "aria-label": "Light or dark",
          onclick: () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); draw(); },
        },
        "◐",
      ),
      isSaved ? null : h(
        "button",
        {
          type: "button",
          id: "save",
          title: "The whole page as one file that opens without a server",
          onclick: () => savePage().catch(fail),
        },
        "Save page",
      ),
    ),
  );
}

function navigation() {
  find("views").replaceChildren(...Object.entries(VIEWS).map(
    ([name, view]) => h(
      "a",
      {
        href: address({ view: name, cell: "" }),
        "aria-current": state().view === name ? "page" : null,
        key: `view ${name}`,
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          select({ view: name, cell: "" });
        },
      },
      view.title,
    ),
  ));
}

const PARTS = { projections: "no projections", scaling: "no scaling", mask: "no mask", positions: "no positions" };
function whatIf() {
  const off = list("off"), muted = list("mute");
  if (!off.length && !muted.length) return null;
  const [was, is] = [app.base.prediction, app.pass.prediction];
  const change = was.length ? [
    " The model said ",
    h("b", {}, visible(best(was).text)),
    ` (${num(best(was).p, 3)}); now `,
    h("b", {}, visible(best(is).text)),
    ` (${num(best(is).p, 3)}).`,
  ] : [];
  return h(
    "div",
    { class: "whatif", role: "note" },
    h("b", {}, "What if"),
    h(
      "span",
      {},
      "not the model as it is: ",
      [...off.map((part) => PARTS[part] || part), ...muted.map((name) => `${name} muted`)].join(", "),
      ".",
      change,
    ),
    off.map((part) => h(
      "button",
      { type: "button", onclick: () => toggle("off", part) },
      `undo ${PARTS[part] || part}`,
    )),
    muted.map((name) => h("button", { type: "button", onclick: () => toggle("mute", name) }, `unmute ${name}`)),
  );
}
const best = (prediction) => prediction.reduce((a, b) => (b.p > a.p ? b : a));

function fail(error) {
  const isOurs = error instanceof Refused;
  if (!isOurs) console.error(error);
  find("main").replaceChildren(h(
    "section",
    { class: "panel error", role: "alert" },
    h("h2", {}, isOurs ? "This cannot be shown" : "The page failed"),
    h("p", {}, isOurs ? error.message : String(error)),
    list("off").length || list("mute").length ? h(
      "p",
      {},
      h("button", { type: "button", onclick: () => select({ off: "", mute: "" }) }, "Back to the model as it is"),
    ) : null,
  ));
  find("side").replaceChildren();
  done();
}
const done = () => {
  find("main").setAttribute("aria-busy", "false");
  document.documentElement.dataset.drawn = String(ticket);
  performance.mark("drawn");
};

// What had the focus keeps it, by its name, when it is drawn again.
function swap(element, ...nodes) {
  const key = document.activeElement?.closest("[data-key]")?.dataset.key;
  const inside = element.contains(document.activeElement);
  const scrolled = element.scrollTop;
  element.replaceChildren(...nodes.filter(Boolean));
  element.scrollTop = scrolled;
  if (inside && key) [
    ...element.querySelectorAll("[data-key]"),
  ].find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
}

async function draw(changed = new Set(ASKS)) {
  const mine = ++ticket;
  const main = find("main");
  main.setAttribute("aria-busy", "true");
  navigation();
  try {
    if (ASKS.some((key) => changed.has(key)) || !app.pass) await ask();
    if (mine !== ticket) return;
    const view = VIEWS[state().view] || attention;
    const [body, side] = await again(() => Promise.all([view.draw(), view.alone ? null : derivation()]));
    if (mine !== ticket) return;
    find("desk").classList.toggle("alone", Boolean(view.alone));
    swap(main, whatIf(), ...[body].flat(Infinity));
    swap(
      find("side"),
      side || (view.alone ? null : h(
        "section",
        { class: "panel" },
        h("p", { class: "empty" }, view.hint || "Click any number to see where it comes from."),
      )),
    );
    if (side && changed.has("cell")) say(`Derivation: ${find("side").querySelector("h2").textContent}`);
    if (changed.has("view")) say(`View: ${view.title}`);
    document.title = `${view.title} · ${app.model.name} · clearhead`;
    done();
  } catch (error) {
    if (mine === ticket) fail(error);
  }
}

async function start() {
  setTheme(remember.get("theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  setSize(remember.get("size") || 1);
  try {
    app.model = await get("api/model");
  } catch (error) {
    fail(error);
    return;
  }
  header();
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address belongs to the selection
    find("main").focus();
  });
  addEventListener("keydown", (event) => { if (event.key === "Escape") select({ cell: "" }); });
  subscribe((changed) => {
    for (const key of ["text", "target"]) {
      const box = document.querySelector(`[data-key="field ${key}"]`);
      if (
        box && changed.has(key) && document.activeElement !== box
      ) box.value = state()[key] ?? (key === "text" ? app.model.example : "");
    }
    draw(changed);
  });
  draw();
}
start();
