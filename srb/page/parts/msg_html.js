/** Words with markup between them, in the page's language. */

import { wordingOf } from "../languages.js";
import { html } from "../vendor/lit.js";

/** A template of Lit in the page's language: msgHtml`Share <q>${title}</q>`. Words without markup are of languages.js's msg.
 * @param {TemplateStringsArray} strings @param {...unknown} values */
export function msgHtml(strings, ...values) {
  const { parts, order } = wordingOf(strings);
  return html(parts, ...order.map((index) => values[index]));
}
