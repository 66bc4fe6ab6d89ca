/** Keys of one's own for actions, kept in this browser: they act beside the page's keys, and never in the place of another. */

import { isComposing, isKeyless } from "../../keys.js";
import { msg } from "../../languages.js";
import { CONTROL, keyName } from "../key_names.js";
import { ACTIONS } from "./actions.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {import("../../desk.js").Desk} Desk */

const KEPT = "srb.keys";
const BOUND_HERE = ["palette", "focus"]; // actions whose first keys nobody else listens to
/** Actions that are no more, and those that took their places: a key that was given to one leads to the other. @type {Record<string, string>} */
const MOVED = { plan: "chapters" };
const MODIFIERS = ["Ctrl", "Alt", "Shift", "Meta"];

/** Keys that belong to the text and its editor, besides those that actions have. */
const OF_TEXT = new Set([
  ...["A", "B", "C", "G", "I", "V", "X"].map((letter) => `${CONTROL}+${letter}`),
  ...["Enter", "Backspace", "Delete", "Home", "End", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].flatMap((key) =>
    ["", "Ctrl+", "Alt+", "Meta+"].flatMap((before) => [`${before}${key}`, `${before}Shift+${key}`]),
  ),
  "F3",
  "Shift+F3",
]);

/** The keys that are pressed, such as `Ctrl+Alt+K`; "" for a modifier alone, and while AltGr writes a sign. @param {KeyboardEvent} event */
export function chordOf(event) {
  if (["Control", "Alt", "Shift", "Meta", "AltGraph"].includes(event.key) || event.getModifierState("AltGraph"))
    return "";
  const isPlain = /^[a-z0-9]$/i.test(event.key);
  const place = /^(?:Key|Digit)(.)$/.exec(event.code)?.[1]; // with Alt, or Shift, the key itself may write another sign
  const key = isPlain ? event.key.toUpperCase() : (place ?? event.key);
  const held = [event.ctrlKey, event.altKey, event.shiftKey, event.metaKey];
  return [...MODIFIERS.filter((_, number) => held[number]), key].join("+");
}

/** Return why keys cannot become those of an action, or "". @param {string} id @param {string} chord */
export function conflictOf(id, chord) {
  const own = ownKeys();
  const other = ACTIONS.find((each) => each.id !== id && (each.keys.includes(chord) || own.get(chord) === each.id));
  if (other) return msg`${keyName(chord)} is the key of “${other.label}”.`;
  const writes = !/^(?:Ctrl|Alt|Meta)\+|^(?:Shift\+)?F\d+$/.test(chord);
  return writes || OF_TEXT.has(chord)
    ? msg`${keyName(chord)} belongs to the text. Take one with Ctrl or Alt, or F1 to F12.`
    : "";
}

/** @returns {[id: string, chord: string][]} */
function keptKeys() {
  try {
    const kept = Object.entries(JSON.parse(localStorage.getItem(KEPT) ?? "{}") ?? {});
    return kept.filter(([, chord]) => typeof chord === "string");
  } catch {
    return []; // storage is switched off in this browser, or another program has written there
  }
}

/** @param {string} id */
const presentId = (id) => MOVED[id] ?? id;

/** @returns {Map<string, string>} the ids of actions by their keys */
export const ownKeys = () => new Map(keptKeys().map(([id, chord]) => [chord, presentId(id)]));

/** Keep keys for an action; "" takes them away. Return whether this browser keeps them. @param {string} id @param {string} chord */
export function setOwnKey(id, chord) {
  const others = keptKeys().filter(([each]) => presentId(each) !== id);
  try {
    localStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(chord ? [...others, [id, chord]] : others)));
    return true;
  } catch {
    return false;
  }
}

/** Listen to the keys of one's own, before the page's; also to the palette's. @param {Desk} desk */
export function bindOwnKeys(desk) {
  addEventListener(
    "keydown",
    (event) => {
      if (event.defaultPrevented || isComposing(event) || isKeyless()) return;
      const chord = chordOf(event);
      const own = chord && ownKeys().get(chord);
      const action = ACTIONS.find(({ id, keys }) => own === id || (BOUND_HERE.includes(id) && keys.includes(chord)));
      if (!action) return;
      event.preventDefault();
      event.stopPropagation();
      if (action.can?.(desk) !== false) action.run(desk);
    },
    { capture: true },
  );
}
