// The page as one file: sources, style and the answers it has had go into a document that asks nobody.

import { remembered } from "./api.js";
import { app, headTensors, sites, weight, attention } from "./app.js";
import { save } from "./panel.js";
import { say } from "./dom.js";

const MOST = 40e6; // bytes of numbers that are taken along without being asked for
const IMPORT = /(from\s+|import\s+)"(\.{1,2}\/[^"]+\.js)"/g;

async function sources(path, found = new Map()) {
  if (found.has(path)) return found;
  found.set(path, null);
  const text = await (await fetch(path)).text(), folder = path.slice(0, path.lastIndexOf("/") + 1);
  const resolve = (name) => new URL(name, `http://x/${folder}`).pathname.slice(1);
  for (const [, , name] of text.matchAll(IMPORT)) await sources(resolve(name), found);
  found.set(path, text.replace(IMPORT, (_, word, name) => `${word}"${resolve(name)}"`));
  return found;
}

const encoded = (text) => `data:text/javascript;base64,${btoa(String.fromCharCode(...new Uint8Array(0)) + [...new TextEncoder().encode(text)].map((byte) => String.fromCharCode(byte)).join(""))}`;
const inScript = (value) => JSON.stringify(value).replaceAll("<", "\\u003c").replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");

// Every head of every layer where that is little; otherwise what has been looked at, which is said.
async function takeAlong() {
  if (app.pass.bytes > MOST) return false;
  for (const one of app.model.attentions) for (const at of one.heads.keys()) {
    await sites(["q", "scores", "weights", "heads"].map((key) => `${one.name}.${key}`), at);
    await sites(["k", "v"].map((key) => `${one.name}.${key}`), one.reads[at]);
  }
  await headTensors();
  const one = attention();
  if (one.projections !== "none") for (const at of one.heads.keys()) await weight(`${one.weights}.W_o.weight`, null, [at * one.d_v, (at + 1) * one.d_v]);
  return true;
}

export async function savePage() {
  say("Saving the page");
  const isWhole = await takeAlong();
  const modules = await sources("page/main.js");
  const style = await (await fetch("page/style.css")).text();
  const shell = new DOMParser ? await (await fetch("./")).text() : "";
  const icon = shell.match(/<link rel="icon"[^>]*>/)[0], body = shell.match(/<body>[\s\S]*<\/body>/)[0];
  const imports = Object.fromEntries([...modules].map(([path, text]) => [path, encoded(text)]));
  const policy = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:";
  const html = ["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">', `<meta http-equiv="Content-Security-Policy" content="${policy}">`, '<meta name="viewport" content="width=device-width, initial-scale=1">', "<title>clearhead explorer, saved</title>", icon, `<style>${style}</style>`,
    `<script type="application/json" id="kept">${inScript(await remembered())}</script>`, `<script type="application/json" id="begin">${inScript(location.hash)}</script>`,
    `<script type="importmap">${inScript({ imports })}</script>`,
    '<script type="module">const hash = JSON.parse(document.getElementById("begin").textContent); if (location.hash.length < 2 && hash.length > 1) history.replaceState(null, "", hash); await import("page/main.js");</script>',
    "</head>", body, "</html>"].join("\n");
  save(`${app.model.name.replace(/[^\w.-]+/g, "-")}-explorer.html`, "text/html", html);
  say(isWhole ? "Saved, with the attention of every head." : "Saved, with what has been looked at; the rest is too large.");
}
