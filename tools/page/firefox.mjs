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
  await revise(page);
  await inGerman(page);
} finally {
  await browser.close();
}
assert.deepEqual(troubles, [], "Firefox had something to say");
console.log("Firefox: loaded, continued, remembered, took, wrote, undid, reloaded, revised and spoke German");

function isReady() {
  return globalThis.desk && document.activeElement?.localName === "srb-manuscript";
}

/** A new story whose rounds are short. */
function beginStory() {
  const { desk } = globalThis;
  desk.newStory();
  for (const [name, value] of Object.entries({ n: 4, max_tokens: 8, stop_at: "" })) desk.setSetting(name, value);
}

/** Waiting for a page and pressing its keys. @param {any} page */
function handsOn(page) {
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
  return { until, press };
}

/** @param {any} page */
async function walk(page) {
  const { until, press } = handsOn(page);
  const text = () => page.evaluate(() => globalThis.desk.text);
  await page.goto(address);
  await until("the caret is in the manuscript", isReady);
  await page.evaluate(beginStory);
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

/** Continue in the middle, write a passage anew, give emphasis, look at the chapters, and let 64 branches grow. @param {any} page */
async function revise(page) {
  const { until, press } = handsOn(page);
  const text = () => page.evaluate(() => globalThis.desk.text);
  const select = (/** @type {number[]} */ ...range) =>
    page.evaluate((/** @type {number[]} */ at) => globalThis.desk.manuscript.select(...at), range);
  const haveEnded = () => globalThis.desk.round?.slots.every((/** @type {any} */ slot) => slot.text && slot.end);
  await page.evaluate(beginStory);
  await page.keyboard.type("# One\n\nThe lake was still. Nobody came. It froze.");

  const before = await text();
  const place = before.indexOf(" It froze.");
  await select(place);
  await press("Enter", "Control");
  await until("cards for the gap have ended", haveEnded);
  await page.keyboard.press("F6");
  await press("Digit1", "Shift");
  await until("one is taken there", () => !globalThis.desk.text.includes("came. It froze."));
  assert.ok((await text()).startsWith(before.slice(0, place)) && (await text()).endsWith(" It froze."));
  await page.evaluate(() => globalThis.desk.manuscript.focus());
  await press("KeyZ", "Control");
  assert.equal(await text(), before);

  const passage = before.indexOf("Nobody");
  await select(passage, passage + "Nobody came.".length);
  await press("Enter", "Control");
  await until("it is asked how to revise", () => document.querySelector("dialog[open] input[type=radio]") !== null);
  await page.evaluate(() => {
    const [button] = Array.from(document.querySelectorAll("dialog[open] button")).filter(({ textContent }) =>
      textContent?.startsWith("Revise,"),
    );
    /** @type {HTMLElement} */ (button).click();
  });
  await until("cards in the passage's place have ended", () => {
    const { round } = globalThis.desk;
    return round?.passage && round.slots.every((/** @type {any} */ slot) => slot.text && slot.end);
  });

  await page.evaluate(() => globalThis.desk.manuscript.focus());
  await select(passage, passage + "Nobody".length);
  await press("KeyI", "Control");
  assert.ok((await text()).includes("*Nobody* came."));
  await press("KeyF", "Control");
  await until(
    "words can be looked for",
    () => document.querySelector("srb-manuscript")?.shadowRoot?.querySelector(".cm-search") != null,
  );
  await page.keyboard.press("Escape");
  await press("KeyC", "Alt");
  await until("the chapter is in the list", () =>
    Array.from(document.querySelectorAll("dialog[open]")).some((each) => each.textContent?.includes("One")),
  );
  await page.keyboard.press("Escape");

  await page.evaluate(() => globalThis.desk.setSetting("n", 64));
  await select((await text()).length);
  await press("Enter", "Control");
  await until("64 cards have ended", () => {
    const { slots = [] } = globalThis.desk.round ?? {};
    return slots.length === 64 && slots.every((/** @type {any} */ slot) => slot.text && slot.end);
  });
  await until("all is saved", () => globalThis.desk.saved.state === "saved");
}

/** Choose German, and find the same story in it. @param {any} page */
async function inGerman(page) {
  const { until } = handsOn(page);
  const before = await page.evaluate(() => globalThis.desk.text);
  await page.evaluate(() => localStorage.setItem("srb.language", "de"));
  await page.reload();
  await until("the caret is in the manuscript", isReady);
  await until("the story is there", () => globalThis.desk.head.at > 17);
  assert.equal(await page.evaluate(() => globalThis.desk.text), before);
  assert.equal(await page.evaluate(() => document.documentElement.lang), "de");
  await until("the button speaks German", () => document.body.textContent?.includes("Weiter"));
}
