/** The srb-story format: everything that a story has. */
import { isRecord } from "../story/check.js";

/** @import {Reader, Story} from "./types.js" */

/** @type {Reader} */
export const srb = {
  label: "SRB",
  knows: (value) => isRecord(value) && value.format === "srb-story",
  read: (value) => [{ json: value, remarks: [] }], // storyOf checks it
};

/**
 * @param {Story} story
 * @param {object} [media] its pictures and sounds by id
 * @returns {string}
 */
export function writeSrb(story, media = {}) {
  const more = Object.keys(media).length > 0 ? { media } : {};
  return `${JSON.stringify({ ...story.toJSON(), ...more }, null, 1)}\n`;
}
