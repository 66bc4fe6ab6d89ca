// vendor/lit.js: components, templates and the directives that the page uses.

export type { CSSResult, PropertyDeclarations, PropertyValues, SVGTemplateResult, TemplateResult } from "lit";
export { css, html, LitElement, noChange, nothing, render, svg, unsafeCSS } from "lit";
export { classMap } from "lit/directives/class-map.js";
export { guard } from "lit/directives/guard.js";
export { ifDefined } from "lit/directives/if-defined.js";
export { keyed } from "lit/directives/keyed.js";
export { live } from "lit/directives/live.js";
export type { Ref } from "lit/directives/ref.js";
export { createRef, ref } from "lit/directives/ref.js";
export { repeat } from "lit/directives/repeat.js";
export { styleMap } from "lit/directives/style-map.js";
export { when } from "lit/directives/when.js";
