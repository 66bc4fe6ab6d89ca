/**
 * Words of a story of which this browser has only a part, when the rest is nowhere any more: they become a story of their own, in
 * which "…" stands for what they were written around.
 *
 * @import {Wire} from "../story/types.js"
 */
import { Texts } from "../story/texts.js";
import { Tree } from "../story/tree.js";
import { fullNode } from "../story/wire.js";
import { newId, Story } from "../story.js";

const UNKNOWN = "\uffff"; // no character: no text has it

/** @param {Required<Wire>} kept @returns {Story} its head is what was written last */
export function storyOfOrphans({ nodes }) {
  const tree = new Tree();
  const all = Object.values(nodes);
  const furthest = all.reduce((most, { keep = 0, tail = keep }) => Math.max(most, tail), 0);
  const length = all.reduce((sum, { keep = 0, tail = keep }) => sum + tail - keep, furthest);
  const missing = new Set(all.flatMap(({ parent }) => (parent && !Object.hasOwn(nodes, parent) ? [parent] : [])));
  for (const id of missing) tree.put({ id, text: UNKNOWN.repeat(length), by: "import", made: 0 });
  for (const [id, { open: _open, ...node }] of Object.entries(nodes)) tree.put(fullNode(id, node));
  const texts = new Texts(tree);
  const story = new Story(newId());
  const ends = [...tree.nodes.values()].filter(({ id }) => tree.entry(id).children.length === 0);
  for (const { id } of ends.sort((a, b) => (a.changed ?? a.made) - (b.changed ?? b.made))) {
    const text = texts.text(id);
    const pieces = texts.pieces(id, text.length).map(({ from, to, by }) => {
      const known = text.slice(from, to).replace(/\uffff+/gu, "…");
      return { text: known, by };
    });
    story.head = story.graft({ node: "", at: 0 }, 0, 0, pieces);
  }
  return story;
}
