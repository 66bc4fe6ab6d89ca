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
 * @returns {string}
 */
export function writeSrb(story) {
  return `${JSON.stringify(story.toJSON(), null, 1)}\n`;
}
