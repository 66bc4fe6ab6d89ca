// vendor/hierarchy.js: the layout of the map of a story.

export type { HierarchyNode, HierarchyPointNode, TreeLayout } from "d3-hierarchy";
export { hierarchy, tree } from "d3-hierarchy";
