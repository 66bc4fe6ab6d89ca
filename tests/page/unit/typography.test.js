import assert from "node:assert/strict";
import { test } from "node:test";
import { endsInCode, typographic } from "../../../srb/page/typography.js";

/** Type a text, each sign as it would become. */
function typed(text, language) {
  let shown = "";
  for (const sign of text) {
    const line = shown.slice(shown.lastIndexOf("\n") + 1);
    const found = sign === "\n" || endsInCode(shown) ? null : typographic(line, sign, language);
    shown += sign;
    if (!found) continue;
    const begin = shown.length - found.back;
    shown = shown.slice(0, begin) + found.insert + shown.slice(begin + found.length);
  }
  return shown;
}

const SAID = `"Go," she said. "It isn't 'late', is it?"`;

/** Language, what is typed, what stands there. @type {[string, string, string][]} */
const CASES = [
  ["en-US", SAID, "“Go,” she said. “It isn’t ‘late’, is it?”"],
  ["en", `("so") *"so"* she--"But I--"`, "(“so”) *“so”* she—“But I—”"],
  ["en", `One.\n\n"Two."`, "One.\n\n“Two.”"],
  ["en", "the boys' lamp", "the boys’ lamp"],
  ["en", "'It's late,' he said.", "‘It’s late,’ he said."],
  ["en", "in the '90s, in '89, of '68.", "in the ’90s, in ’89, of ’68."],
  ["en", `"Back in '89 we left."`, "“Back in ’89 we left.”"],
  ["en", "'Tis late. Tell 'em, rock 'n' roll", "’Tis late. Tell ’em, rock ’n’ roll"],
  ["en", "the 'new' lamp", "the ‘new’ lamp"],
  ["en", "'1984', he read", "‘1984’, he read"],
  ["en", "gone--he was gone -- for good, 1914--1918", "gone—he was gone – for good, 1914–1918"],
  ["en", "she---", "she—"],
  ["en", "Wait... what....", "Wait… what…."],
  ["en", "---\n\n- - -\n\n***", "---\n\n- - -\n\n***"],
  ["en", "-- Who is there?", "— Who is there?"],
  ["en", "a|---|b, <!-- kept", "a|---|b, <!-- kept"],
  ["de", `"Geh", sagte sie. "Wie geht's 'heute'?"`, "„Geh“, sagte sie. „Wie geht’s ‚heute‘?“"],
  ["de", "'geht's'", "‚geht’s‘"],
  ["de", `"Er sagt 'Wie geht's dir', mehr nicht."`, "„Er sagt ‚Wie geht’s dir‘, mehr nicht.“"],
  ["de", "die '90er, im Sommer '89.", "die ’90er, im Sommer ’89."],
  ["de", "So 'n Unsinn, 's war 'ne Frau", "So ’n Unsinn, ’s war ’ne Frau"],
  ["de", "Er ging -- und kam--", "Er ging – und kam–"],
  ["de", "Nun ja...", "Nun ja…"],
  ["de", "-- Wer da?", "– Wer da?"],
  ["de-CH", `"Geh", sagte sie. 'Geht's?'`, "«Geh», sagte sie. ‹Geht’s?›"],
  ["cs", `"Jdi," řekla. 'Tak'`, "„Jdi,“ řekla. ‚Tak‘"],
  ["da", `"Gå," sagde hun. 'Nu'`, "“Gå,” sagde hun. ‘Nu’"],
  ["es", `"Ve", dijo. "¿'Ahora'?"`, "«Ve», dijo. «¿“Ahora”?»"],
  ["es", "-- Ven. Los años '90.", "— Ven. Los años ’90."],
  ["fi", `"Mene", hän sanoi. 'Nyt'`, "”Mene”, hän sanoi. ’Nyt’"],
  ["fr", `"Va", dit-elle. L'an.`, "«\u202fVa\u202f», dit-elle. L’an."],
  ["fr", "'aujourd'hui'", "‹aujourd’hui›"],
  ["fr", "Il vint -- enfin...", "Il vint — enfin…"],
  ["hu", `"Menj 'most' el"`, "„Menj »most« el”"],
  ["it", `L'"amico" degli anni '90.`, "L’«amico» degli anni ’90."],
  ["nb", `"Gå 'nå', da"`, "«Gå ‘nå’, da»"],
  ["nl", "'s Avonds, 't is 'n dag", "’s Avonds, ’t is ’n dag"],
  ["nl", `"Ga 'nu' weg"`, "“Ga ‘nu’ weg”"],
  ["pl", `"Idź 'już' stąd"`, "„Idź «już» stąd”"],
  ["pl", "-- Idź -- rzekła.", "— Idź – rzekła."],
  ["pt", "-- Vá -- disse ela.", "— Vá — disse ela."],
  ["ru", `"Иди 'скорее' домой"`, "«Иди „скорее“ домой»"],
  ["ru", "-- Иди -- сказала она.", "— Иди — сказала она."],
  ["sv", `"Gå", sa hon. Sen '68.`, "”Gå”, sa hon. Sen ’68."],
  ["tlh", SAID, typed(SAID, "en")],
];

for (const [language, plain, shown] of CASES)
  test(`${plain.replaceAll("\n", "↵")} becomes typographic in ${language}`, () => {
    assert.equal(typed(plain, language), shown);
  });

test("an apostrophe is known by the letters on both sides of it", () => {
  assert.equal(typographic("‚geht", "'", "de", "s").insert, "’");
  assert.equal(typographic("‚geht", "'", "de", " ").insert, "‘");
});

test("signs in code stay as they are typed", () => {
  assert.equal(typed('`say "so" -- ...` and "so"', "en"), '`say "so" -- ...` and “so”');
  assert.equal(typed('```\nsay("so")...\n```\n"so"', "en"), '```\nsay("so")...\n```\n“so”');
});

test("behind a word that has lost its end a quotation ends, and behind an elided one it begins", () => {
  assert.equal(typographic("the dogs’", '"', "en")?.insert, "”");
  assert.equal(typographic("l’", '"', "fr")?.insert.trim(), "«");
});
