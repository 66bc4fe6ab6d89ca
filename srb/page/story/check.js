/**
 * The checks of what comes from outside: files, the server, other tabs. Everything is checked before anything is taken.
 *
 * @import {Stamped} from "./types.js"
 */
import { msg } from "../languages.js";
import { isWhole } from "./text.js";

const LONGEST_NODE = 1024 * 1024;
const ID = /^[\w-]{1,64}$/;
const AUTHORS = ["person", "model", "import"];

/** @param {unknown} value @returns {value is Record<string, unknown>} */
export const isRecord = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {unknown} value @returns {value is number} */
export const isCount = (value) => Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;

/** @param {unknown} value @returns {value is string} */
export const isId = (value) => typeof value === "string" && ID.test(value) && value !== "__proto__";

/**
 * Say what is wrong with a node by itself, whatever its parent is.
 * @param {string} id
 * @param {unknown} node
 * @returns {string} "" if nothing is
 */
export function faultOfNode(id, node) {
  if (!isId(id))
    return msg`A node has the id “${String(id).slice(0, 80)}”; ids are 1 to 64 letters, digits, “-” and “_”.`;
  if (!isRecord(node)) return msg`Node ${id} is not an object.`;
  const { parent, keep, tail, text, by, made, open, changed } = node;
  if (typeof text !== "string") return msg`Node ${id} has no text.`;
  if (text.length > LONGEST_NODE)
    return msg`Node ${id} has ${text.length} characters; a node may have ${LONGEST_NODE}.`;
  if (!isWhole(text)) return msg`The text of node ${id} holds half of a character.`;
  if (typeof by !== "string" || !AUTHORS.includes(by))
    return msg`Node ${id} names no author: “by” is person, model or import.`;
  if (made !== undefined && !isCount(made)) return msg`Node ${id} was made at no time: “made” is in milliseconds.`;
  if (open !== undefined && typeof open !== "boolean") return msg`In node ${id}, “open” is neither true nor false.`;
  if (changed !== undefined && !isCount(changed))
    return msg`Node ${id} was changed at no time: “changed” is in milliseconds.`;
  if (node.end !== undefined && (!isRecord(node.end) || typeof node.end.reason !== "string"))
    return msg`Node ${id} ended without a reason.`;
  for (const key of ["slot", "seed", "logprob"]) {
    if (node[key] !== undefined && typeof node[key] !== "number") return msg`In node ${id}, “${key}” is not a number.`;
  }
  if (node.index !== undefined && !isCount(node.index)) return msg`In node ${id}, “index” is not a count.`;
  if (node.run !== undefined && !isId(node.run)) return msg`Node ${id} names no run.`;
  if (parent === undefined) {
    if (keep !== undefined || tail !== undefined) return msg`Node ${id} has no parent, but keeps a part of one.`;
    return "";
  }
  if (!isId(parent)) return msg`Node ${id} has no proper parent.`;
  if (!isCount(keep)) return msg`Node ${id} does not say how much of its parent it keeps.`;
  if (tail !== undefined && (!isCount(tail) || tail < keep)) return msg`In node ${id}, “tail” lies before “keep”.`;
  return "";
}

/**
 * @param {string} id
 * @param {unknown} run
 * @returns {string} the fault of a run by itself, or ""
 */
export function faultOfRun(id, run) {
  if (!isId(id)) return msg`A run has the id “${String(id).slice(0, 80)}”, which is none.`;
  if (!isRecord(run)) return msg`Run ${id} is not an object.`;
  if ((run.node !== undefined && run.node !== "" && !isId(run.node)) || (run.at !== undefined && !isCount(run.at)))
    return msg`Run ${id} has no place.`;
  if (run.made !== undefined && !isCount(run.made)) return msg`Run ${id} was made at no time.`;
  if (run.seeds !== undefined && !Array.isArray(run.seeds)) return msg`The seeds of run ${id} are not a list.`;
  return "";
}

/**
 * @param {unknown} stamped
 * @returns {stamped is Stamped}
 */
export const isStamped = (stamped) => isRecord(stamped) && "value" in stamped && isCount(stamped.changed);
