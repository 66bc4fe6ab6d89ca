import "../page/parts/alternatives.js";
import "../page/parts/note.js";
import "../page/parts/branches.js";
import { CardsDesk } from "./cards_desk.js";

const desk = new CardsDesk();
const branches = document.createElement("srb-branches");
const alternatives = document.createElement("srb-alternatives");
const note = document.createElement("srb-note");
branches.desk = alternatives.desk = note.desk = desk;
document.querySelector("#desk").append(branches);
document.body.append(alternatives, note);
Object.assign(window, { desk, branches, alternatives, ready: true });
