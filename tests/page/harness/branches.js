import "../page/parts/alternatives.js";
import "../page/parts/branches.js";
import { CardsDesk } from "./cards_desk.js";

const desk = new CardsDesk();
const branches = document.createElement("srb-branches");
const alternatives = document.createElement("srb-alternatives");
branches.desk = alternatives.desk = desk;
document.querySelector("#desk").append(branches);
document.body.append(alternatives);
Object.assign(window, { desk, branches, alternatives, ready: true });
