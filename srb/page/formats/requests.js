/**
 * The requests of a story's rounds, and the texts that their branches wrote: lines of JSON, by which `srb stories replay` asks again and compares.
 */
import { fromBase64 } from "../media.js";
import { requestOf } from "../story/asked.js";

/** @import {Files} from "./pictures.js" */
/** @import {Story} from "./types.js" */
/** @import {Node, Run} from "../story/types.js" */

/** @param {Story} story @param {Files} [files] its pictures and sounds by id */
export function writeRequests(story, files = {}) {
  const written = byRequest(story);
  const bytesOf = (/** @type {string} */ id) => (files[id] ? fromBase64(files[id].data) : undefined);
  return [...story.runs.values()]
    .sort((one, other) => one.made - other.made)
    .map((run) => {
      const { body = null, noted } = requestOf(story, run, bytesOf) ?? {};
      const { id, round = id, request_id, made, model, seeds } = run;
      const { grown, blind } = /** @type {any} */ (story.runs.get(round)?.request ?? {});
      return {
        round,
        request_id,
        made: new Date(made).toISOString(),
        model,
        version: noted?.version ?? "",
        ...(blind === true ? { blind } : {}),
        ...(grown === true ? { grown } : {}),
        request: body,
        seeds,
        branches: branchesOf(story, run, written.get(request_id) ?? new Map()),
      };
    })
    .map((line) => `${JSON.stringify(line)}\n`)
    .join("");
}

/** How many requests of a story are not kept as they were asked. @param {Story} story */
export const countUnkept = (story) => [...story.runs.values()].filter((run) => requestOf(story, run) === null).length;

/** The last nodes of branches by their indices, by the requests that they are of. @param {Story} story */
function byRequest(story) {
  /** @type {Map<string, Map<number, Node>>} */
  const requests = new Map();
  for (const node of story.nodes.values()) {
    const request = node.request ?? story.runs.get(node.run ?? "")?.request_id;
    if (node.by !== "model" || node.of || node.index === undefined || request === undefined) continue;
    const branches = requests.get(request) ?? new Map();
    requests.set(request, branches);
    const known = branches.get(node.index);
    if (!known || lengthOf(node) >= lengthOf(known))
      branches.set(node.index, { ...node, asked: node.asked ?? known?.asked });
  }
  return requests;
}

/** Where the text of a node's path ends. @param {Node} node */
const lengthOf = ({ keep = 0, text }) => keep + text.length;

/** @param {Story} story @param {Run} run @param {Map<number, Node>} written */
function branchesOf(story, run, written) {
  const { request, at } = story.runs.get(run.round ?? run.id) ?? run;
  const { keep = at } = /** @type {any} */ (request ?? {});
  const { given = "" } = /** @type {any} */ (run.request ?? {});
  return [...written]
    .sort(([one], [other]) => one - other)
    .map(([index, { id, seed = -1, end, direction, asked }]) => ({
      index,
      seed,
      text: story.text(id).slice(keep + given.length),
      end: end?.reason ?? "lost",
      ...(index < run.seeds.length ? {} : { asked: { ...asked, ...(direction && !asked?.from ? { direction } : {}) } }),
    }));
}
