// All modules of the page and the app: their syntax, and that what one imports another exports.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import vm from "node:vm";

const PAGE = new URL("../../../../src/mcp_server_qdrant/http/page/", import.meta.url);
const names = readdirSync(new URL("viz/", PAGE)).filter((name) => name.endsWith(".js")).map((name) => `viz/${name}`);
const sources = new Map([...names, "chat.js"].map((name) => [new URL(name, PAGE).href, readFileSync(new URL(name, PAGE), "utf8")]));
const parsed = (identifier) => new vm.SourceTextModule(sources.get(identifier), { identifier });

test("every name that a module imports is exported by another", async () => {
  const modules = new Map([...sources.keys()].map((url) => [url, parsed(url)]));
  for (const module of modules.values()) {
    if (module.status === "unlinked") await module.link((specifier, from) => modules.get(new URL(specifier, from.identifier).href));
    assert.equal(module.status, "linked");
  }
  assert.ok(modules.size > 15);
});

test("every export is imported by somebody", () => {
  const all = [...sources.values()].join("\n");
  const exported = [...all.matchAll(/^export (?:async )?(?:const|class|function) ([\w$]+)/gm)].map(([, name]) => name);
  const tests = readdirSync(new URL(".", import.meta.url)).map((name) => readFileSync(new URL(name, import.meta.url), "utf8")).join("\n");
  const uses = (name) => (all + tests).split(new RegExp(`(?<![\\w$])${name.replace("$", "\\$")}(?![\\w$])`)).length - 1;
  assert.ok(exported.length > 50);
  assert.deepEqual(exported.filter((name) => uses(name) < 2), []);
});

test("the app is one module, of others whose first paragraph is imports and nothing else", async () => {
  const { modules, script } = JSON.parse(process.env.APP);
  for (const name of modules) {
    const [head] = sources.get(new URL(name, PAGE).href).split("\n\n");
    const wrong = head.split("\n").filter((line) => !line.startsWith("//") && !/^import \{ [\w$, ]+ \} from "/.test(line));
    assert.deepEqual(wrong, [], name);
    assert.doesNotMatch(head, /^import .* as /m, `${name}: a renamed import has no name in the app`);
  }
  await new vm.SourceTextModule(script).link((specifier) => assert.fail(`it imports ${specifier}`));
});
