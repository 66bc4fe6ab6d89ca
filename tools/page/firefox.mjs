// Walk the loop of the page in Firefox: node tools/page/firefox.mjs PACKAGES FIREFOX ADDRESS
//
// PACKAGES is the folder in which npm installed puppeteer-core, which drives the browser by WebDriver BiDi: Playwright knows only
// its own Firefox. Ends with status 1 and a sentence at the first step that fails.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [packages, firefox, address] = process.argv.slice(2);
const START = "Once upon a time,";
const DEADLINE = 60_000; // ms
const BETWEEN = 50; // ms from one look to the next

const installed = createRequire(join(resolve(packages), "package.json")).resolve("puppeteer-core");
const { default: puppeteer } = await import(pathToFileURL(installed).href);

/** @type {string[]} */
const troubles = [];
const browser = await puppeteer.launch({ browser: "firefox", executablePath: firefox, headless: true });
try {
  const page = await browser.newPage();
  page.on("pageerror", (/** @type {Error} */ error) => troubles.push(`error: ${error.message}`));
  page.on("console", (/** @type {any} */ message) => {
    if (message.type() === "error") troubles.push(`console: ${message.text()}`);
  });
  await walk(page);
} finally {
  await browser.close();
}
assert.deepEqual(troubles, [], "Firefox had something to say");
console.log("Firefox: loaded, continued, remembered, took, wrote, undid and reloaded");

/** @param {any} page */
async function walk(page) {
  const until = async (/** @type {string} */ what, /** @type {() => unknown} */ condition) => {
    const end = Date.now() + DEADLINE;
    while (!(await page.evaluate(condition))) {
      assert.ok(Date.now() < end, `waited in vain until ${what}\n${troubles.join("\n")}`);
      await new Promise((done) => setTimeout(done, BETWEEN));
    }
  };
  const press = async (/** @type {string} */ key, /** @type {string} */ held) => {
    await page.keyboard.down(held);
    await page.keyboard.press(key);
    await page.keyboard.up(held);
  };
  const text = () => page.evaluate(() => globalThis.desk.text);
  const isReady = () => globalThis.desk && document.activeElement?.localName === "srb-manuscript";

  await page.goto(address);
  await until("the caret is in the manuscript", isReady);
  await page.evaluate(() => {
    const { desk } = globalThis;
    desk.newStory();
    for (const [name, value] of Object.entries({ n: 4, max_tokens: 8, stop_at: "" })) desk.setSetting(name, value);
  });
  await page.keyboard.type(START);
  await press("Enter", "Control");
  await until("four cards have ended", () => {
    const { slots } = globalThis.desk.round ?? { slots: [] };
    return slots.length === 4 && slots.every((/** @type {any} */ slot) => slot.text && slot.end);
  });
  const shown = await page.evaluate(() =>
    Array.from(document.querySelectorAll("srb-branches article.card .text"), (each) => each.textContent),
  );
  assert.equal(shown.filter((words) => words?.trim()).length, 4, "each card shows its text");

  await press("KeyM", "Alt");
  await until("the caret is in the memory", () => document.activeElement?.id === "side-memory");
  await page.keyboard.type("Dora is old.");
  assert.equal(await page.evaluate(() => globalThis.desk.story.meta("memory")), "Dora is old.");
  await page.keyboard.press("Escape");
  await until("the caret is in the manuscript", isReady);
  assert.equal(await text(), START);

  await page.keyboard.press("F6");
  await until("a card has the focus", () => document.querySelector("srb-branches")?.contains(document.activeElement));
  await press("Digit2", "Shift");
  await until("a card is taken", () => globalThis.desk.head.at > 17);
  const taken = await text();
  assert.ok(taken.startsWith(START) && taken.length > START.length, "the second card's text is in the manuscript");

  await page.keyboard.press("i");
  await until("the caret is in the manuscript again", isReady);
  await page.keyboard.type(" he said");
  await until("the words are in the story", () => globalThis.desk.text.endsWith(" he said"));
  assert.equal(await text(), `${taken} he said`);
  await press("KeyZ", "Control");
  await until("the words are undone", () => !globalThis.desk.text.endsWith(" he said"));
  assert.equal(await text(), taken);

  await until("all is saved", () => globalThis.desk.saved.state === "saved");
  await page.reload();
  await until("the caret is in the manuscript after the reload", isReady);
  await until("the story is there", () => globalThis.desk.head.at > 17);
  assert.equal(await text(), taken);
  await until("the cards are there again", () => globalThis.desk.round?.slots.length === 4);
}
