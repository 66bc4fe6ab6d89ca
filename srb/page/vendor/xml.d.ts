export * from "../../../tools/page/vendor/xml.js"; // for the checker only; not in the wheel
