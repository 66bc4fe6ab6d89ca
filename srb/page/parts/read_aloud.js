/** Reading aloud by the browser's voice: the card that has the focus, what is selected, or the text from the caret on. */

import { msg } from "../languages.js";
import { piecesOf } from "../spoken.js";
import { languageOf } from "./language.js";

/** @typedef {import("../desk.js").Desk} Desk */

/** @type {Iterator<string> | null} the pieces that are still to be read */
let rest = null;

/** Begin to read, or cease. @param {Desk} desk */
export function readAloud(desk) {
  if (!("speechSynthesis" in globalThis)) return desk.notice(msg`This browser has no voice.`);
  if (rest !== null) return cease();
  rest = piecesOf(chosenText(desk));
  addEventListener("pagehide", cease); // else the voice goes on without the page
  if (!readNext(languageOf(desk))) desk.notice(msg`There is nothing to read from here on.`);
}

function cease() {
  rest = null;
  speechSynthesis.cancel();
  removeEventListener("pagehide", cease);
}

/** Read the next piece; return whether there was one. @param {string} language */
function readNext(language) {
  const own = rest;
  const { value, done } = own?.next() ?? { value: "", done: true };
  if (done) {
    cease();
    return false;
  }
  const utterance = new SpeechSynthesisUtterance(value);
  utterance.lang = language;
  utterance.voice = localVoice(language);
  utterance.onend = () => rest === own && readNext(language);
  utterance.onerror = () => rest === own && cease();
  speechSynthesis.speak(utterance);
  return true;
}

/** A voice that needs no network, so that the text stays here; null: the browser's choice. @param {string} language */
function localVoice(language) {
  const wanted = language.split("-")[0];
  return (
    speechSynthesis.getVoices().find(({ lang, localService }) => localService && lang.split(/[-_]/)[0] === wanted) ??
    null
  );
}

/** @param {Desk} desk */
function chosenText(desk) {
  const branches = /** @type {any} */ (document.activeElement?.closest("srb-branches"));
  const slot = branches?.round?.slots[branches.board?.current];
  if (slot) return String(slot.text);
  const { from, to } = desk.manuscript?.selection ?? { from: 0, to: 0 };
  return desk.text.slice(from, to > from ? to : undefined);
}
