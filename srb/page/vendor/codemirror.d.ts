export * from "../../../tools/page/vendor/codemirror.js"; // for the checker only; not in the wheel
