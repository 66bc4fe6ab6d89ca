// Stories that are written as files and read again: text, emphasis, breaks, chapters, title, author and comments are the same.
import assert from "node:assert/strict";
import { test } from "node:test";
import { commentOn, commentsOf, PREFIX, rangesOf } from "../../../srb/page/desk/comments.js";
import { written } from "../../../srb/page/emphasis.js";
import { chaptersOf } from "../../../srb/page/formats/chapters.js";
import { read } from "../../../srb/page/formats/detect.js";
import { writeDocx } from "../../../srb/page/formats/docx.js";
import { writeEpub } from "../../../srb/page/formats/epub.js";
import { writeHtml } from "../../../srb/page/formats/html.js";
import { writeSrb } from "../../../srb/page/formats/srb.js";
import { writeMarkdown } from "../../../srb/page/formats/text.js";
import { Story } from "../../../srb/page/story.js";
import { encoded } from "./formats_oracle.js";
import { Random } from "./random.js";

const STORIES = Number(process.env.SRB_STORIES_OF_WALK ?? 150);
const WORDS =
  "the lamp Tom’s sea “Stop!” — said, 海の 灯台 🌕 <b> &amp; & x*y * _ old_count _old_ # ## C:\\*.txt \\ don’t (no) … 5 Mill ~ > - + 1. é\u0301 שלום \u00a0 a\u00adb".split(
    " ",
  );

/** @param {Random} random */
function lineOf(random) {
  const words = [];
  const styles = [];
  let style = 0;
  for (let left = 1 + random.below(9); left > 0; left -= 1) {
    if (random.chance(1, 4)) style = random.below(4);
    const word = random.choice(WORDS);
    if (words.length > 0) {
      const glued = random.chance(1, 8);
      words.push(glued ? "" : random.choice([" ", " ", " ", "  "]));
      if (!glued) for (const _ of words.at(-1)) styles.push(random.chance(1, 2) ? style : 0);
    }
    words.push(word);
    for (let unit = 0; unit < word.length; unit += 1) styles.push(style);
  }
  const plain = words.join("");
  if (!/[\p{L}\p{N}]/u.test(plain) || /^\s*\\/.test(plain)) return "Night."; // `\# x` cannot be said as words
  const first = plain.length - plain.trimStart().length;
  const runs = [...plain.trim()].map((text, index) => ({ text, style: 0, index }));
  let at = first;
  for (const run of runs) {
    run.style = styles[at] ?? 0;
    at += run.text.length;
  }
  return written(runs).text;
}

/** A story as a person could have written it in this page. @param {number} seed */
function storyOf(seed) {
  const random = new Random(seed);
  const story = Story.create(random.choice(["The Lamp", "Fog & <Sea>", "# 5 *x*", "“Q”"]));
  if (random.chance(3, 4)) story.setMeta("author", random.choice(["Ann Writer", 'J. "Q" <P>', "李 雷"]));
  const isLines = random.chance(1, 3); // each line is a paragraph
  const gap = isLines ? "\n" : "\n\n";
  story.head = { node: "", at: 0 };
  /** @param {string} text */
  const add = (text) => {
    const { at } = story.head;
    story.head = story.edit(story.head, at, at, text);
    story.closeAll();
  };
  const parts = 1 + random.below(4);
  for (let part = 0; part < parts; part += 1) {
    const kind = part === 0 && random.chance(1, 2) ? "none" : random.choice(["name", "one", "two"]);
    let text = part === 0 ? "" : "\n\n";
    if (kind === "one" || kind === "two")
      text += `${kind === "one" ? "#" : "##"} Chapter *${part}* & more${gap.length === 2 ? gap : "\n\n"}`;
    const paragraphs = (isLines ? 6 : 3) + random.below(6);
    for (let count = 0; count < paragraphs; count += 1) {
      if (count > 0) {
        const what = random.below(12);
        if (what === 0) text += "\n\n***\n\n";
        else if (what === 1) text += `\n\n### Part ${count}\n\n`;
        else if (what === 2) text += gap + "\n".repeat(1 + random.below(3));
        else if (what === 3 && !isLines) text += "\n";
        else text += gap;
      }
      text += lineOf(random);
    }
    add(text);
    if (kind === "name") story.setMark(story.head.node, "name", `Name ${part} & <x>`);
  }
  return story;
}

/** @param {Story} story */
const textOf = (story) => story.text(story.head.node, story.head.at);

/** @param {Story} story */
const namesOf = (story) => chaptersOf(story).chapters.map(({ name, level }) => `${level} ${name}`);

/** @type {[string, (story: Story) => string | Uint8Array][]} */
const FORMATS = [
  ["x.docx", writeDocx],
  ["x.epub", writeEpub],
  ["x.html", writeHtml],
  ["x.json", writeSrb],
];

/** @param {string} name @param {string | Uint8Array} content */
async function readBack(name, content) {
  const found = await read(name, typeof content === "string" ? encoded(content) : content);
  assert.ok(!("error" in found), found.error);
  return found;
}

for (const [name, write] of FORMATS)
  test(`${STORIES} random stories come back from ${name} to the letter`, async () => {
    for (let seed = 1; seed <= STORIES; seed += 1) {
      const story = storyOf(seed);
      const { stories, remarks } = await readBack(name, write(story));
      const says = `seed ${seed}`;
      assert.equal(textOf(stories[0]), textOf(story), says);
      assert.deepEqual(namesOf(stories[0]), namesOf(story), says);
      for (const fact of ["title", "author"]) assert.equal(stories[0].meta(fact), story.meta(fact), says);
      assert.deepEqual(remarks, [], says);
    }
  });

test(`${STORIES} random stories come back from Markdown, with names as headings`, async () => {
  for (let seed = 1; seed <= STORIES; seed += 1) {
    const story = storyOf(seed);
    const { stories } = await readBack("x.md", writeMarkdown(story));
    const again = await readBack("x.md", writeMarkdown(stories[0]));
    assert.equal(textOf(again.stories[0]), textOf(stories[0]), `seed ${seed}`);
    const plain = (/** @type {Story} */ each) => textOf(each).replace(/^## Name .*\n+/gm, "");
    if (!namesOf(story).some((each) => each.includes("Name")))
      assert.equal(textOf(stories[0]), textOf(story), `seed ${seed}`);
    else assert.equal(plain(stories[0]).replace(/\n+/g, "\n"), textOf(story).replace(/\n+/g, "\n"), `seed ${seed}`);
    for (const fact of ["title", "author"]) assert.equal(stories[0].meta(fact), story.meta(fact), `seed ${seed}`);
  }
});

test("comments of random stories come back from Word on the same words", async () => {
  for (let seed = 1; seed <= STORIES / 3; seed += 1) {
    const random = new Random(seed);
    const story = storyOf(seed);
    const text = textOf(story);
    const words = [...text.matchAll(/[a-zA-Z]{3,}/g)];
    for (let count = 0; count < 5 && words.length > 0; count += 1) {
      const [one, other] = [random.choice(words), random.choice(words)].sort((a, b) => a.index - b.index);
      const range = { from: one.index, to: other.index + other[0].length };
      story.setMeta(`${PREFIX}c${count}`, { ...commentOn(story, story.head, range, `Remark ${count}`), author: "Ed" });
    }
    const { stories } = await readBack("x.docx", writeDocx(story));
    assert.deepEqual(commentsIn(stories[0]), commentsIn(story), `seed ${seed}`);
  }
});

/** Words of comments and what they are on, without the signs at its ends. @param {Story} story */
function commentsIn(story) {
  const comments = commentsOf(story);
  const ranges = rangesOf(story, story.head, comments);
  const edges = /^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu;
  return [...comments]
    .map(([id, { text, author }]) => {
      const { from, to } = ranges.get(id);
      return [text, author, textOf(story).slice(from, to).replace(edges, "")];
    })
    .sort();
}
