/**
 * The plan's part of a prompt: the synopses of a text's chapters and scenes, and the beats that are written. Each stands in brackets before
 * its words. There it stays while the text grows, so the server knows all before the text's end. Of parts that are not sent the synopses tell
 * the story so far.
 *
 * @typedef {object} Line
 * @property {"chapter" | "scene" | "beat"} kind
 * @property {string} name  of the part, "" if it has none
 * @property {number} at  the beginning of the line of the text before which it stands
 * @property {number} end  of its part
 * @property {string} text
 * @property {string} [gap]  before the line, where it stands within one of the text
 * @typedef {{lines: Line[], untold: number}} Plan  `untold`: where the first part begins that no line tells
 * @typedef {{text: string, at: number, origin: "plan"}} Insert
 */

const OF_CHAPTER = "[In this chapter:";
const OF_SCENE = "[In this scene:";

/** @type {Record<string, (text: string) => string>} */
const FRAMES = { chapter: (text) => `${OF_CHAPTER} ${text}]`, scene: (text) => `${OF_SCENE} ${text}]` };
const GAP = 2; // characters between a line and the words behind it

/** @type {Readonly<Plan>} */
export const NO_PLAN = Object.freeze({ lines: [], untold: 0 });

/**
 * Return the synopses of the parts before a place, as one text; the last ones if not all fit. "" where words before it are told by none.
 * @param {Plan} plan @param {number} start @param {number} most  characters @param {boolean} isPartial  whether to do with those that there are
 */
export function toldBefore({ lines, untold }, start, most, isPartial) {
  if (untold < start && !isPartial) return "";
  const told = lines.filter(({ kind, end }) => kind !== "beat" && end <= start);
  let text = "";
  for (const { kind, name, text: own } of told.reverse()) {
    const sentence = /[.!?…]["”’»)]*$/u.test(own) ? own : `${own}.`;
    const longer = `${kind === "chapter" && name ? `${name}: ` : ""}${sentence}${text && " "}${text}`;
    if (longer.length > most) break;
    text = longer;
  }
  return text;
}

/**
 * Return the lines that stand in a text that is sent from a place on, with that of the part in which it begins; the last ones if not all fit.
 * @param {Plan} plan @param {number} start @param {number} most  characters @param {(beat: string) => string} frame
 * @returns {Insert[]} by their offsets in the sent text
 */
export function linesFrom({ lines }, start, most, frame) {
  /** @type {Insert[]} */
  const inserts = [];
  let left = most;
  for (const { kind, at, end, text, gap = "" } of [...lines].reverse()) {
    if (end <= start) continue;
    const framed = gap + (FRAMES[kind] ?? frame)(text);
    left -= framed.length + GAP;
    if (left < 0) break;
    inserts.push({ text: framed, at: Math.max(at, start) - start, origin: "plan" });
  }
  return inserts;
}

/**
 * Return the beginnings of lines that a prompt has: a model takes them for the story's own, and would write further ones.
 * @param {string} prompt @param {string} [frame]  of a direction
 */
export function beginningsIn(prompt, frame = "") {
  const [ofBeat = ""] = frame.split("<|>");
  const begins = [OF_CHAPTER, OF_SCENE, ...(ofBeat.startsWith("[") ? [ofBeat.trimEnd()] : [])];
  return begins.filter((each) => prompt.includes(each));
}

/** @param {Insert[]} inserts */
export const lengthOf = (inserts) => inserts.reduce((sum, { text }) => sum + text.length + GAP, 0);
