// The prompt: memory, the story's last part and the author's note between its paragraphs, within the model's context.
//
// A story that is too long is cut at the front, at a paragraph's end, a quarter of the room at once. The cut then stays for
// many rounds: a prompt that begins elsewhere in each round would be computed anew in each.

import { beginningOf, leadingTo, withGap } from "./behind.js";
import { markersOf } from "./markers.js";
import { lengthOf, linesFrom, NO_PLAN, toldBefore } from "./plan.js";
import { stretch, textOf } from "./reading.js";

/** @typedef {{at: number, characters: number, next: string}} Cut   the sent story begins at `at`; `next`: its first characters there */
/** @typedef {{kind: "system" | "memory" | "lore" | "plan" | "summary" | "story" | "note" | "room", characters: number, tokens: number, cut: number}} Part
 *  a share of the context; `cut`: the characters that were left out; "room" is for the branches' own words */
/** @typedef {{role: "system" | "user" | "assistant", content: string}} Message */
/** @typedef {{text: string, depth: number, frame?: string}} Note   the author's note; `frame` stands around it in the prompt */
/**
 * @typedef {object} Lore - what of a lorebook goes into the prompt
 * @property {string} before - stands behind the memory
 * @property {string} within - stands in the story
 * @property {(text: string, start: number, end: number) => number} placeIn - where, in the text of which that part is sent
 */
/**
 * @typedef {object} Sources
 * @property {string} text - the manuscript, up to the branches
 * @property {string} [behind] - what stands behind them
 * @property {import("./behind.js").Fill | null} [fill] - the model's tokens for a text with a gap
 * @property {number} [perMedium] - tokens of a picture or sound in it
 * @property {Set<number>} [unsent] - where the markers of those begin that are left out of the prompt
 * @property {string} [memory] - before the story, whatever is cut
 * @property {import("./plan.js").Plan} [plan] - synopses of the text's parts
 * @property {string} [summary] - of the beginning, in its place where that is not sent and synopses do not tell all of it
 * @property {Note} [note] - put before the last `depth` paragraphs
 * @property {Lore} [lore]
 * @property {Note} [wish] - what happens next: a chat model's instruction, else a note before the last paragraph
 * @property {string} [wishFrame] - what stands around a direction
 * @property {number | null} [directedAt] - where a direction that all branches share stands, -1: before the last paragraph; null: there is none
 * @property {{n: number, max_tokens: number, mode?: string, system?: string, instruction?: string, model?: string}} settings
 * @property {number} n_ctx - the model's context, in tokens
 * @property {number} [rate] - characters per token, see `learnRate`
 * @property {Cut | null} [cut] - the last plan's
 */
/**
 * @typedef {object} Planned
 * @property {string | null} prompt - null if the chat template has to make it
 * @property {{messages: Message[]} & Record<string, unknown> | null} template - the body for POST /apply-template, which answers {"prompt"}
 * @property {number} keep - the manuscript's length without trailing spaces: where the model's words begin
 * @property {Cut | null} cut - null if the whole story is sent
 * @property {number} loreAt - where in the manuscript the lorebook's part stands
 * @property {import("./round.js").Directing | null} place - of directions, where a base model has none of the server's own
 * @property {Part[]} parts
 * @property {import("./reading.js").Block[]} blocks - of which the prompt is made
 */

/** Characters per token of an unknown model. */
export const FIRST_RATE = 3.5;

/** What stands around an author's note, for the place in it, if the story does not say: KoboldAI's. A bare paragraph is taken for
 * the story's, and gone on with. */
export const NOTE_FRAME = "[Author's note: <|>]";
export const NOTE_PLACE = "<|>";

/** What stands around a direction, if the story does not say: the server's own. */
export const WISH_FRAME = "[What happens next: <|>]";
const MOST_BEHIND = 2000; // characters of a last paragraph that each branch reads again behind its direction

/** What stands around the summary of a beginning that is not sent. */
const SUMMARY_FRAME = "[The story so far: <|>]";

/** @type {Note} */
const NO_WISH = { text: "", depth: 1 };
const MOST_TURNS = 4; // in which the story's beginning and the plan beside it find their room
const LEARNED_FROM = 400; // characters of a prompt that tell as much as all that was known before
const SAFETY = 0.95; // share of the context that is used, since lengths in tokens are estimates
const MARGIN = 24; // tokens of the text's beginning and a chat template's marks
export const NEXT = 64; // characters by which a cut is found again after an edit before it
const NO_LORE = Object.freeze({ before: "", within: "", placeIn: () => 0 });

/**
 * Return the characters per token, after the server has counted a prompt's tokens.
 *
 * @param {number} rate - so far
 * @param {number} characters - of the prompt
 * @param {number} tokens - of the prompt
 */
export function learnRate(rate, characters, tokens) {
  if (!(characters > 0 && tokens > 0)) {
    return rate;
  }
  const weight = Math.min(1, characters / LEARNED_FROM);
  return Math.min(20, Math.max(0.2, weight * (characters / tokens) + (1 - weight) * rate));
}

/**
 * Return the prompt of the next round, or the chat from which the server makes it.
 *
 * @param {Sources} sources
 * @returns {Planned}
 */
export function planPrompt({
  text,
  behind = "",
  fill = null,
  memory = "",
  plan = NO_PLAN,
  summary = "",
  note = { text: "", depth: 3 },
  lore = NO_LORE,
  wish = NO_WISH,
  wishFrame = WISH_FRAME,
  directedAt = null,
  settings,
  n_ctx,
  rate = FIRST_RATE,
  perMedium = 0,
  unsent = new Set(),
  cut = null,
}) {
  const isChat = settings.mode === "chat";
  const system = isChat ? [settings.system ?? "", instructionOf(settings)].join("") : "";
  const room = roomOf(settings, n_ctx);
  const whole = Math.max(0, Math.floor((n_ctx - room - MARGIN) * rate * SAFETY) - system.length); // characters
  const following = isChat || fill ? beginningOf(behind, whole) : "";
  const budget = Math.max(0, whole - following.length - wish.text.length - (wish.frame ?? "").length);
  const keep = trimmedLength(text);
  const ofLore = lore.before.length + lore.within.length;
  const extra = memory.trim().length + framed(note).length + ofLore;
  const roomBeside = (/** @type {number} */ taken) => Math.max(budget - taken, Math.min(keep, Math.floor(budget / 4)));
  const markers = markersOf(text);
  const more = moreOf(unsent, perMedium * rate);
  const startIn = (/** @type {number} */ room) =>
    besideMarkers(markers, startOf(text, keep, budgetBeside(markers, keep, room, more), cut));
  const linesIn = (/** @type {number} */ from) =>
    linesFrom(plan, from, budget / 8, (beat) => framed({ text: beat, frame: wishFrame }));
  let start = startIn(roomBeside(extra));
  let forStory = 0;
  let summed = stretch("summary", "");
  for (let turn = 0; turn < MOST_TURNS; turn += 1) {
    const before = start;
    summed = soFar({ plan, summary }, start, Math.floor(budget / 4));
    forStory = roomBeside(extra + summed.text.length + lengthOf(linesIn(start)));
    start = startIn(forStory);
    if (start === before) break;
  }
  const lines = linesIn(start);
  const media = markers.filter(({ from, to }) => from >= start && to <= keep).map(more);
  const sent = text.slice(start, keep);
  const noted = noteIn(sent, note, budget - forStory - ofLore);
  const wished = noteIn(sent, isChat ? NO_WISH : wish, Number.POSITIVE_INFINITY);
  const loreAt = lore.within === "" ? start : lore.placeIn(text, start, keep);
  /** @type {Parameters<typeof withInserts>[1]} */
  const inserts = [
    { ...noted, origin: "note" },
    { ...wished, origin: "instruction" },
    { text: lore.within, at: loreAt - start, origin: "lore" },
    ...lines,
  ];
  const story = withInserts(sent, inserts);
  const ofPlan = lengthOf(lines) + (summed.origin === "plan" ? summed.text.length : 0);
  const ofSummary = summed.origin === "plan" ? 0 : summed.text.length;
  const remembered = shortened(memory.trim(), budget - forStory - ofLore - ofPlan - ofSummary - noted.text.length);
  const first = [stretch("memory", remembered), stretch("lore", lore.before), summed].filter(({ text }) => text !== "");
  const before = joined(first, story);
  const rest = directedAt === null || directedAt < start ? lastParagraph(sent) : directedAt - start;
  const instruction = told(settings, wish);
  const parts = [
    part("memory", rate, remembered.length, memory.trim().length),
    part("lore", rate, ofLore, ofLore),
    part("plan", rate, ofPlan, ofPlan),
    part("summary", rate, ofSummary, ofSummary),
    withTokens(part("story", rate, keep - start, keep), media, rate),
    part("note", rate, noted.text.length, framed(note).length),
    { kind: /** @type {const} */ ("room"), characters: Math.floor(room * rate), tokens: room, cut: 0 },
  ];
  return {
    prompt: isChat ? null : withGap(fill, textOf(before), following),
    template: isChat ? chat({ ...settings, instruction }, first, textOf(story), following) : null,
    blocks: isChat
      ? blocksOfChat({ ...settings, instruction }, { first, story, following })
      : blocksOfText(before, following, fill),
    place: isChat
      ? null
      : placeIn(textOf(before), {
          frame: wishFrame,
          fill,
          following,
          behind: directedAt === null ? null : sent.length - rest + lengthBehind(sent, inserts, rest),
        }),
    keep,
    cut: start === 0 ? null : { at: start, characters: start, next: text.slice(start, start + NEXT) },
    loreAt,
    parts: isChat ? [part("system", rate, system.length, system.length), ...parts] : parts,
  };
}

/**
 * Return the tokens that are kept free for the branches: for all of them, but at most half of the context.
 *
 * @param {{n: number, max_tokens: number}} settings
 * @param {number} n_ctx
 */
function roomOf({ n, max_tokens }, n_ctx) {
  const each = max_tokens > 0 ? max_tokens : n_ctx;
  return Math.min(Math.floor(n_ctx / 2), n * each);
}

/**
 * @param {Part["kind"]} kind
 * @param {number} rate
 * @param {number} sent
 * @param {number} whole
 * @returns {Part}
 */
function part(kind, rate, sent, whole) {
  return { kind, characters: sent, tokens: Math.ceil(sent / rate), cut: whole - sent };
}

/**
 * @param {Part} text
 * @param {number[]} more - characters that its files are worth beside their markers
 * @param {number} rate
 * @returns {Part}
 */
function withTokens(text, more, rate) {
  return { ...text, tokens: text.tokens + Math.ceil(more.reduce((sum, each) => sum + each, 0) / rate) };
}

/**
 * Return the length of a text without the spaces at its end: the next token brings its own. Line ends stay.
 *
 * @param {string} text
 */
export function trimmedLength(text) {
  let end = text.length;
  while (end > 0 && " \t\u00a0".includes(text.charAt(end - 1))) {
    end -= 1;
  }
  return end;
}

/** Plain characters for typographic ones. @type {Record<string, string>} */
const PLAIN = {
  "“": '"',
  "”": '"',
  "„": '"',
  "«": '"',
  "»": '"',
  "‘": "'",
  "’": "'",
  "‚": "'",
  "–": "-",
  "—": "-",
  "…": "...",
  "\u00a0": " ",
};
const TYPOGRAPHIC = new RegExp(`[${Object.keys(PLAIN).join("")}]`, "g");

/**
 * Return a prompt with plain characters for those that the model's vocabulary lacks: of their bytes it knows nothing.
 *
 * @param {string} prompt
 * @param {string | null | undefined} lacks
 */
export function straightened(prompt, lacks) {
  return lacks ? prompt.replace(TYPOGRAPHIC, (letter) => (lacks.includes(letter) ? PLAIN[letter] : letter)) : prompt;
}

// Where the story begins ---------------------------------------------------------------------------------------------------

/**
 * Return where the sent story begins.
 *
 * @param {string} text
 * @param {number} keep - where it ends
 * @param {number} budget - characters that may be sent
 * @param {Cut | null} cut - the last one, which stays while it can
 */
function startOf(text, keep, budget, cut) {
  const quarter = Math.floor(budget / 4);
  const last = cut === null ? -1 : placeOf(text, cut);
  const stays = last > 0 && keep - last <= budget && keep - last >= 2 * quarter && keep > 3 * quarter;
  if (stays) {
    return last;
  }
  return keep <= budget ? 0 : beginningAfter(text, keep - 3 * quarter, keep - 2 * quarter);
}

/**
 * Return where a place is in a text that may have been edited before it, or -1.
 *
 * @param {string} text
 * @param {Pick<Cut, "at" | "next">} place - with the first characters behind it
 */
export function placeOf(text, { at, next }) {
  if (text.startsWith(next, at)) {
    return at;
  }
  const before = text.lastIndexOf(next, at);
  const after = text.indexOf(next, at);
  if (before === -1 || after === -1) {
    return Math.max(before, after);
  }
  return at - before < after - at ? before : after;
}

/**
 * Return the first beginning of a paragraph from `from` on; if there is none before `limit`, of a sentence or a word.
 *
 * @param {string} text
 * @param {number} from
 * @param {number} limit
 */
export function beginningAfter(text, from, limit) {
  const within = text.slice(from, limit);
  for (const beginning of [/\n+(?=[^\n])/, /[.!?…]["'”’»)]*\s+(?=\S)/, /\s+(?=\S)/]) {
    const found = beginning.exec(within);
    if (found !== null) {
      return from + found.index + found[0].length;
    }
  }
  const isInPair = /[\udc00-\udfff]/.test(text[from] ?? "");
  return isInPair ? from + 1 : from;
}

// Memory, note and chat ----------------------------------------------------------------------------------------------------

/**
 * Return a text's beginning within a length, at a word's end.
 *
 * @param {string} text
 * @param {number} length
 */
function shortened(text, length) {
  if (text.length <= length) {
    return text;
  }
  const beginning = text.slice(0, Math.max(0, length));
  const end = Math.max(beginning.lastIndexOf(" "), beginning.lastIndexOf("\n"));
  return end > 0 ? beginning.slice(0, end).trimEnd() : "";
}

/**
 * Return the frame of an author's note. One that a person has put in brackets needs none.
 *
 * @param {Pick<Note, "text" | "frame">} note
 */
export function frameOf({ text, frame }) {
  const own = text.trim();
  return frame ?? (isBracketed(own) ? NOTE_PLACE : NOTE_FRAME);
}

/** Whether a person has put a text in brackets. @param {string} text without blanks at its ends */
export const isBracketed = (text) => text.startsWith("[") && text.endsWith("]");

/**
 * Return an author's note as it is sent. A frame without a place for the note is none.
 *
 * @param {Pick<Note, "text" | "frame">} note
 */
function framed({ text, frame }) {
  const own = text.trim();
  const around = frameOf({ text, frame });
  return own === "" || !around.includes(NOTE_PLACE) ? own : around.replace(NOTE_PLACE, () => own).trim();
}

/**
 * Return what is told of a beginning that is not sent: the plan, or where it does not tell all of that, the summary.
 * @param {{plan: import("./plan.js").Plan, summary: string}} given @param {number} start @param {number} most - characters of it
 */
function soFar({ plan, summary }, start, most) {
  if (start === 0) return stretch("summary", ""); // a beginning that is read needs none
  const told = toldBefore(plan, start, most, summary.trim() === "");
  return told
    ? stretch("plan", framed({ text: told, frame: SUMMARY_FRAME }))
    : stretch("summary", framedSummary(summary, most));
}

/** Return a summary as it is sent. @param {string} summary @param {number} most - characters of it */
function framedSummary(summary, most) {
  const text = shortened(summary.trim(), most);
  return framed({ text, frame: isBracketed(text) ? NOTE_PLACE : SUMMARY_FRAME });
}

/**
 * Return the author's note as it fits, and where it stands.
 *
 * @param {string} story
 * @param {Note} note
 * @param {number} room - for the note, in characters
 * @returns {Insert}
 */
function noteIn(story, note, room) {
  const own = note.text.trim();
  const around = framed(note).length - own.length;
  const shown = shortened(own, room - around);
  const text = shown === "" ? "" : framed({ ...note, text: shown });
  return { text, at: paragraphFromEnd(story, Math.max(1, Math.floor(note.depth))) };
}

/** @typedef {{text: string, at: number}} Insert */

/**
 * Return where directions stand in a base model's prompt: before the text's last paragraph, or within a long one; one that all branches
 * share stands so many characters before the end. Null where the server puts them there by itself.
 * @param {string} text - of the prompt, up to the branches
 * @param {{frame: string, fill: import("./behind.js").Fill | null, following: string, behind: number | null}} around
 * @returns {import("./round.js").Directing | null}
 */
function placeIn(text, { frame, fill, following, behind }) {
  const hasGap = fill && following.trim() !== "";
  const beyond = !hasGap ? "" : fill.suffix_first ? fill.middle : fill.suffix + following + fill.middle;
  const isServers = behind === null && frame === WISH_FRAME && (!hasGap || fill.suffix_first);
  if (isServers || !frame.includes(NOTE_PLACE)) return null;
  const at = behind === null ? lastParagraph(text) : text.length - behind;
  const last = text.slice(at) + beyond;
  const [before, after] = frame.split(NOTE_PLACE);
  const gap = at === 0 || text[at - 1] === "\n" ? "" : "\n\n";
  return { tail: last.length, before: gap + before, rest: `${after}${gapBefore(text, at)}${last}` };
}

/** Where a text's last paragraph begins; of a long one, a sentence near its end. @param {string} text */
export function lastParagraph(text) {
  const paragraph = paragraphFromEnd(text, 1);
  const far = text.length - MOST_BEHIND;
  return paragraph < far ? beginningAfter(text, far, text.length) : paragraph;
}

/** The characters of texts that stand in a story behind a place. @param {string} story @param {Insert[]} inserts @param {number} from */
function lengthBehind(story, inserts, from) {
  const behind = inserts.filter(({ text, at }) => text !== "" && at > from);
  return behind.reduce((sum, { text, at }) => sum + text.length + gapBefore(story, at).length, 0);
}

/** The line ends before a place of a story, which stand behind a note there as well. @param {string} story @param {number} at */
function gapBefore(story, at) {
  return /\n+$/.exec(story.slice(Math.max(0, at - 8), at))?.[0] ?? "\n\n";
}

/**
 * Return a story with texts on lines of their own; of two at one place the first stands nearer to the end.
 *
 * @param {string} story
 * @param {(Insert & {origin: import("./reading.js").Origin})[]} inserts
 * @returns {import("./reading.js").Block}
 */
function withInserts(story, inserts) {
  const placed = inserts.filter(({ text }) => text !== "").sort((a, b) => b.at - a.at);
  let end = 0;
  const all = placed.reverse().flatMap(({ text, at, origin }) => {
    const gap = gapBefore(story, at);
    const before = stretch("text", story.slice(end, at));
    end = at;
    return [before, stretch(origin, text + gap)];
  });
  return [...all, stretch("text", story.slice(end))];
}

/**
 * Return where the text's last `depth` paragraphs begin. Empty lines are no paragraphs.
 *
 * @param {string} text
 * @param {number} depth
 */
function paragraphFromEnd(text, depth) {
  let at = text.length;
  for (let count = 0; count < depth && at > 0; count += 1) {
    let end = at;
    while (end > 0 && text[end - 1] === "\n") {
      end -= 1;
    }
    at = end === 0 ? 0 : text.lastIndexOf("\n", end - 1) + 1;
  }
  return at;
}

/**
 * Return a story behind texts with a paragraph each.
 *
 * @param {import("./reading.js").Block} first
 * @param {import("./reading.js").Block} story
 */
function joined(first, story) {
  return [...first.map(({ origin, text }) => stretch(origin, `${text}\n\n`)), ...story];
}

/**
 * @param {import("./reading.js").Block} before
 * @param {string} following
 * @param {import("./behind.js").Fill | null} fill
 */
function blocksOfText(before, following, fill) {
  const behind = [stretch("text", following)];
  return fill?.suffix_first ? [behind, before] : [before, behind];
}

/**
 * @param {{system?: string, instruction?: string}} settings
 * @param {{first: import("./reading.js").Block, story: import("./reading.js").Block, following: string}} texts
 */
function blocksOfChat(settings, { first, story, following }) {
  const system = [stretch("instruction", settings.system?.trim() ?? "")];
  const instruction = [stretch("instruction", instructionOf(settings))];
  return [system, joined(first, []), instruction, [stretch("text", following)], story];
}

/** @param {{instruction?: string}} settings @param {Note} wish */
function told(settings, { text }) {
  return text.trim() === "" ? settings.instruction : `${instructionOf(settings)} ${text.trim()}`;
}

/** @param {{instruction?: string}} settings */
function instructionOf({ instruction = "" }) {
  return instruction.trim() === "" ? "Continue the story." : instruction.trim();
}

// Pictures and sounds --------------------------------------------------------------------------------------------------------

/**
 * Return a function from a marker to the characters that its file is worth beside it; one that is not sent takes its marker along.
 *
 * @param {Set<number>} unsent - where markers begin
 * @param {number} each - characters that a file is worth
 */
function moreOf(unsent, each) {
  return (/** @type {import("./markers.js").Marker} */ { from, to }) =>
    unsent.has(from) ? from - to : Math.max(0, each - (to - from));
}

/**
 * Return the characters of a text's end that a budget allows, if each file in it takes more than its marker.
 *
 * @param {import("./markers.js").Marker[]} markers
 * @param {number} keep - the text's end
 * @param {number} budget - characters
 * @param {ReturnType<typeof moreOf>} more
 */
function budgetBeside(markers, keep, budget, more) {
  let left = budget;
  for (const marker of [...markers].reverse()) {
    if (marker.to > keep || keep - marker.from + more(marker) > left) {
      return Math.max(0, Math.min(left, keep - marker.to));
    }
    left -= more(marker);
  }
  return left;
}

/**
 * Return a text's beginning, moved behind a marker that it would cut.
 *
 * @param {import("./markers.js").Marker[]} markers
 * @param {number} start
 */
function besideMarkers(markers, start) {
  return markers.find(({ from, to }) => from < start && start < to)?.to ?? start;
}

/**
 * Return the body for POST /apply-template: the story is the beginning of the assistant's answer.
 *
 * @param {{system?: string, instruction?: string, model?: string}} settings
 * @param {import("./reading.js").Block} first
 * @param {string} story
 * @param {string} following - what stands behind the answer
 */
function chat(settings, first, story, following) {
  const system = [settings.system?.trim() ?? "", ...first.map(({ text }) => text)]
    .filter((each) => each !== "")
    .join("\n\n");
  /** @type {Message[]} */
  const messages = [{ role: "user", content: leadingTo(instructionOf(settings), following) }];
  if (system !== "") {
    messages.unshift({ role: "system", content: system });
  }
  const variables = forTemplate(settings);
  if (story === "") {
    return { messages, ...variables };
  }
  messages.push({ role: "assistant", content: story });
  return { messages, continue_final_message: true, ...variables };
}

/** Fields of POST /apply-template beside the messages: prose is wanted, not a plan for it. @param {{model?: string}} settings */
export function forTemplate({ model }) {
  return { ...(model ? { model } : {}), chat_template_kwargs: { enable_thinking: false } };
}
