// Typographic quotation marks while a person types. The straight mark is typed first, and replaced in a step of its own: undo gives it back.

import { markFor } from "../quotes.js";
import { EditorView, isolateHistory } from "../vendor/codemirror.js";

/** @param {import("../desk.js").Desk} desk */
export const typedQuotes = (desk) =>
  EditorView.inputHandler.of((view, from, to, text) => {
    if ((text !== '"' && text !== "'") || view.composing || !desk.settings.typographic_quotes) return false;
    const { lang } = view.contentDOM;
    const mark = markFor(view.state.doc.sliceString(0, from), text, lang);
    if (mark === "") return false;
    view.dispatch({
      changes: { from, to, insert: text },
      selection: { anchor: from + 1 },
      scrollIntoView: true,
      userEvent: "input.type",
    });
    view.dispatch({
      changes: { from, to: from + 1, insert: mark },
      selection: { anchor: from + mark.length },
      annotations: isolateHistory.of("full"),
      userEvent: "input.type",
    });
    return true;
  });
