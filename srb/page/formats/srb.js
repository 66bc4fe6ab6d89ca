/** The srb-story format: everything that a story has. */

/** @import {Draft, Opened, Story} from "./types.js" */

/** @param {Opened} opened @returns {Draft[]} */
export function read({ value }) {
  return [{ json: value, remarks: [] }]; // storyOf checks it
}

/**
 * @param {Story} story
 * @param {object} [media] its pictures and sounds by id
 * @returns {string}
 */
export function writeSrb(story, media = {}) {
  const more = Object.keys(media).length > 0 ? { media } : {};
  return `${JSON.stringify({ ...story.toJSON(), ...more }, null, 1)}\n`;
}
