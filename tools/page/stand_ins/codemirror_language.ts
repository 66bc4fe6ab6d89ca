// In the place of @codemirror/language, which prose does not need: it would add a parser of 50 KB for commands about
// brackets and indentation. vendor/codemirror.js exports no command that calls one of these.

function needsLanguage(): never {
  throw new Error("this command needs @codemirror/language, which the page does not have");
}

export const getIndentation = needsLanguage;
export const getIndentUnit = needsLanguage;
export const indentString = needsLanguage;
export const matchBrackets = needsLanguage;
export const syntaxTree = needsLanguage;
export const indentUnit = null;
export class IndentContext {
  constructor() {
    needsLanguage();
  }
}
