// Typographic signs while a person types. Plain signs are typed first, and replaced in a step of its own: undo gives them back.

import { endsInCode, typographic } from "../typography.js";
import { EditorView, isolateHistory } from "../vendor/codemirror.js";

/** @param {import("../desk.js").Desk} desk */
export const typedSigns = (desk) =>
  EditorView.inputHandler.of((view, from, to, text) => {
    if (text.length !== 1 || view.composing || !desk.settings.typographic_quotes) return false;
    const { doc } = view.state;
    const line = doc.lineAt(from);
    const before = line.text.slice(0, from - line.from);
    const found = typographic(before, text, view.contentDOM.lang, doc.sliceString(to, to + 1));
    if (!found || endsInCode(doc.sliceString(0, from))) return false;
    const { back, length, insert } = found;
    const begin = from + 1 - back;
    view.dispatch({
      changes: { from, to, insert: text },
      selection: { anchor: from + 1 },
      scrollIntoView: true,
      userEvent: "input.type",
    });
    view.dispatch({
      changes: { from: begin, to: begin + length, insert },
      selection: { anchor: from + 1 - length + insert.length },
      annotations: isolateHistory.of("full"),
      userEvent: "input.type",
    });
    return true;
  });
