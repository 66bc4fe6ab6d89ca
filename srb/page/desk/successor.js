/** A story that goes on where another is full: its text so far, and all that was set for it. */

import { msg, NUMBER, TENTHS } from "../languages.js";
import { brought } from "../media.js";
import { Story } from "../story.js";

/** @typedef {import("../desk.js").Desk} Desk */
/** @typedef {import("../keep/server.js").Room} Room */
/** @typedef {import("../story/types.js").Place} Place */

/** The percentages at which a person is told. */
const STEPS = [90, 95, 98, 99, 100];
const BEGINNING = { node: "", at: 0 };
const LONGEST_TITLE = 900; // of 1000, with the words behind it
/** Values that belong to the text and its nodes. */
const NOT_TAKEN = new Set(["head", "title", "title_of_text", "words"]);

/** @type {WeakMap<Story, number>} the last step that was told of each story */
const told = new WeakMap();

/** Say that the open story is nearly full, once at each step, and offer another. @param {Desk} desk @param {Room} room */
export function offerSuccessor(desk, room) {
  const step = STEPS.findLast((percent) => room.used >= percent) ?? 0;
  if (step <= (told.get(desk.story) ?? 0)) return;
  told.set(desk.story, step);
  const run = () => desk.guard(() => goOnInNewStory(desk));
  desk.notice(sentenceOf(room), "error", { label: msg`Go on in a new story`, run });
}

/** @param {Room} room */
function sentenceOf({ used, nodes, bytes }) {
  const out = msg`Go on in a new story, which begins with this text; this one stays in the list.`;
  if (used >= 100) return `${msg`This story is full: what is new is kept in this browser only.`} ${out}`;
  const [left, size] = [NUMBER.format(nodes), TENTHS.format(bytes / 2 ** 20)];
  return `${msg`This story is nearly full: there is room for ${left} more branches and edits, at most ${size} MB.`} ${out}`;
}

/** @param {Desk} desk */
async function goOnInNewStory(desk) {
  await desk.flush();
  const next = successorOf(desk.story, desk.head, desk.title);
  const found = await desk.withRounds(({ context }) => context.media.all([desk.text]));
  if (!found) return; // another story was opened, or it was said what could not be loaded
  const { files, unread } = found;
  if (unread.length) throw unread[0];
  brought.set(next, files); // they are shown before they are kept
  await desk.importStory(next);
  await desk.withRounds(({ context }) => context.media.takeIn(files));
  desk.manuscript?.focus();
}

/**
 * @param {Story} story
 * @param {Place} head  the end of the text that the new story begins with
 * @param {string} title  of the story
 */
function successorOf(story, head, title) {
  const next = Story.create(msg`${title.slice(0, LONGEST_TITLE)}, continued`);
  for (const [key, value] of Object.entries(story.stampsOf(null).values))
    if (!NOT_TAKEN.has(key)) next.setMeta(key, value);
  next.head = next.edit(BEGINNING, 0, 0, story.text(head.node, head.at));
  next.closeAll();
  return next;
}
