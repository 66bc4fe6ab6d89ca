// In the place of @lezer/common, the parsers' trees; see codemirror_language.ts.
export const NodeProp = null;
