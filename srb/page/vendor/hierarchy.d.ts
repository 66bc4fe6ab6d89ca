export * from "../../../tools/page/vendor/hierarchy.js"; // for the checker only; not in the wheel
