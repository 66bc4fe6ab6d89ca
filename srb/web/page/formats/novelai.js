/** NovelAI's stories of the older editor, and its scenarios. The new editor's document is packed in a form of its own. */
import { isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { listOf, objectOf, optionalText, textOf, titleOf } from "./file.js";
import { ofNovelAi } from "./lorebooks.js";
import { SegmentTree } from "./segments.js";

/** @import {Draft, Reader} from "./types.js" */

const AUTHORS = { user: "person", prompt: "person", edit: "person", ai: "model" };

/** @type {Reader} */
export const novelAi = {
  label: "NovelAI",
  knows: (value) =>
    isRecord(value) && (value.storyContainerVersion !== undefined || value.scenarioVersion !== undefined),
  read,
};

/**
 * @param {Record<string, unknown>} file
 * @param {string} name
 * @returns {Draft[]}
 */
function read(file, name) {
  const isScenario = file.scenarioVersion !== undefined;
  const content = isScenario ? file : objectOf(file.content, "The story's “content”");
  const metadata = isScenario ? file : objectOf(file.metadata ?? {}, "The story's “metadata”");
  const tree = new SegmentTree();
  for (const { text, by } of isScenario
    ? [{ text: optionalText(file.prompt, "The prompt"), by: "person" }]
    : fragmentsOf(content)) {
    if (text === "") continue;
    const parent = tree.size === 0 ? null : tree.size - 1;
    tree.add(tree.size, { parent, text, by: /** @type {any} */ (by), marks: { seen: true } });
  }
  if (tree.size === 0) throw new StoryError("The story holds no text.");
  const [memory, note] = listOf(content.context, "The list “context”").map((each, index) =>
    optionalText(objectOf(each, `Part ${index + 1} of “context”`).text, `Part ${index + 1} of “context”`),
  );
  const lore = ofNovelAi(objectOf(content.lorebook ?? {}, "The story's lorebook"));
  const title = optionalText(metadata.title, "The story's title") || titleOf(name);
  return [tree.draft({ title, current: tree.size - 1, memory, note: { text: note ?? "", depth: 3 }, lore })];
}

/**
 * @param {Record<string, unknown>} content
 * @returns {{text: string, by: string}[]}
 */
function fragmentsOf({ story, document }) {
  if (!isRecord(story) && typeof document === "string")
    throw new StoryError(
      "The story is of NovelAI's new editor, whose document cannot be read here. Export it there as plain text, and its lorebook by itself.",
    );
  const fragments = listOf(objectOf(story, "The story's text").fragments, "The list of fragments");
  return fragments.map((each, index) => {
    const { data, origin } = objectOf(each, `Fragment ${index + 1}`);
    return {
      text: textOf(data, `Fragment ${index + 1}`),
      by: AUTHORS[/** @type {keyof typeof AUTHORS} */ (origin)] ?? "import",
    };
  });
}
