import assert from "node:assert/strict";
import { test } from "node:test";
import { draftOf, keepDraft, recalled, sendDraft, sentOf } from "../../../srb/page/desk/drafts.js";
import { isEntry } from "../../../srb/page/keep/describe.js";
import { draftField } from "../../../srb/page/parts/draft_field.js";
import { storyOf } from "../../../srb/page/story/read.js";
import { makeDesk } from "./fake_desk.js";

test("words that were begun are in the story, in an empty one too, until they are sent", async () => {
  const { desk } = await makeDesk();
  keepDraft(desk, "wish", "Tom refuses. Mara");
  assert.ok(isEntry(desk.story, desk.settings));
  desk.setStory(storyOf(desk.story.toJSON()));
  assert.equal(draftOf(desk, "wish"), "Tom refuses. Mara");
  assert.equal(draftOf(desk, "revise.shorter"), "");
  sendDraft(desk, "wish", "Tom refuses. Mara leaves.");
  assert.deepEqual([draftOf(desk, "wish"), sentOf(desk, "wish")], ["", ["Tom refuses. Mara leaves."]]);
});

test("the last words that were sent are offered once each, the last first, and lead back to the draft", async () => {
  const { desk } = await makeDesk();
  for (const words of ["One.", "Two.", "", "One.", ...Array(12).fill("Three.")]) sendDraft(desk, "wish", words);
  keepDraft(desk, "wish", "A draft");
  assert.deepEqual(sentOf(desk, "wish"), ["Three.", "One.", "Two."]);
  const older = ["A draft", "Three.", "One.", "Two."].map((words) => recalled(desk, "wish", words, 1));
  assert.deepEqual(older, ["Three.", "One.", "Two.", "Two."]);
  assert.deepEqual([recalled(desk, "wish", "One.", -1), recalled(desk, "wish", "Three.", -1)], ["Three.", "A draft"]);
  for (let count = 0; count < 20; count += 1) sendDraft(desk, "wish", `${count}.`);
  assert.equal(sentOf(desk, "wish").length, 12);
});

test("a field recalls from its beginning alone, so that the keys still move the caret", async () => {
  const { desk } = await makeDesk();
  sendDraft(desk, "wish", "Sent.");
  const field = { value: "", selectionEnd: 0 };
  const handlers = draftField(desk, () => "wish");
  const press = (key, more = {}) => {
    let isTaken = false;
    handlers.keydown({ key, target: field, preventDefault: () => (isTaken = true), ...more });
    return isTaken;
  };
  Object.assign(field, { value: "Begun", selectionEnd: 5 });
  handlers.input({ target: field });
  assert.equal(press("ArrowUp"), false);
  field.selectionEnd = 0;
  assert.deepEqual([press("ArrowUp"), field.value, draftOf(desk, "wish")], [true, "Sent.", "Begun"]);
  assert.deepEqual([press("ArrowDown"), field.value], [true, "Begun"]);
  assert.equal(press("Enter", { ctrlKey: true }), false); // the form's
});
