// Labelled fields of a dialog: a check box, a radio button, a text of several lines. Each has plain words beside its label.

import { html, live } from "../vendor/lit.js";

/**
 * @param {string} name
 * @param {string} label
 * @param {string} words
 * @param {boolean} isOn
 * @param {(isOn: boolean) => void} set
 */
export function check(name, label, words, isOn, set) {
  const id = `setting-${name}`;
  return html`<div class="check">
    <input
      type="checkbox"
      id=${id}
      aria-describedby="${id}-words"
      .checked=${live(isOn)}
      @change=${(/** @type {any} */ event) => set(event.target.checked)}
    />
    <label for=${id}>${label}</label>
    <p class="words" id="${id}-words">${words}</p>
  </div>`;
}

/**
 * @param {{name: string, value: string, label: string, words: string, disabled: boolean, isChosen: boolean}} button
 * @param {() => void} choose
 */
export function radio({ name, value, label, words, disabled, isChosen }, choose) {
  const id = `setting-${name}-${value}`;
  return html`<div class="check">
    <input
      type="radio"
      id=${id}
      name="setting-${name}"
      value=${value}
      aria-describedby="${id}-words"
      ?disabled=${disabled}
      .checked=${live(isChosen)}
      @change=${choose}
    />
    <label for=${id}>${label}</label>
    <p class="words" id="${id}-words">${words}</p>
  </div>`;
}

/**
 * @param {{name: string, label: string, rows: number, words: string}} field
 * @param {string} text
 * @param {(text: string) => void} set
 */
export function textArea({ name, label, rows, words }, text, set) {
  const id = `setting-${name}`;
  return html`<div class="field tall">
    <label for=${id}>${label}</label>
    <textarea
      id=${id}
      rows=${rows}
      dir="auto"
      aria-describedby="${id}-words"
      .value=${live(text)}
      @input=${(/** @type {any} */ event) => set(event.target.value)}
    ></textarea>
    <p class="words" id="${id}-words">${words}</p>
  </div>`;
}
