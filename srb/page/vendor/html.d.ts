export * from "../../../tools/page/vendor/html.js"; // for the checker only; not in the wheel
