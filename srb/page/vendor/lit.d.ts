export * from "../../../tools/page/vendor/lit.js"; // for the checker only; not in the wheel
