/** Times as a person says them. */

import { LANGUAGE, msg } from "../../languages.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const relative = new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" });
const dates = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium" });
const moments = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });

/** @param {number} time @returns {string} such as “Nov 3, 2026, 4:15 PM” */
export const moment = (time) => moments.format(time);

/**
 * @param {number} time
 * @param {number} now
 * @returns {string} such as “5 minutes ago”, “yesterday”, “Nov 3, 2026”
 */
export function age(time, now) {
  const passed = Math.max(0, now - time);
  if (passed < MINUTE) return msg`just now`;
  if (passed < HOUR) return relative.format(-Math.floor(passed / MINUTE), "minute");
  if (passed < DAY) return relative.format(-Math.floor(passed / HOUR), "hour");
  if (passed < 7 * DAY) return relative.format(-Math.floor(passed / DAY), "day");
  return dates.format(time);
}

/**
 * @param {number} deleted  when a story was put into the bin
 * @param {number} now
 * @returns {string} such as “in 12 days”
 */
export function daysLeft(deleted, now) {
  return relative.format(Math.max(1, Math.ceil((deleted + 30 * DAY - now) / DAY)), "day");
}
