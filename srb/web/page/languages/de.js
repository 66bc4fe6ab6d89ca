/** The page's words in German, by what it says in English; {0} is the first value. Sections are named by the file that says it. */

/** @type {Record<string, string>} */
export default {
  // several files
  "The server cannot be reached.": "Der Server ist nicht erreichbar.",
  "The connection to the server was lost.": "Die Verbindung zum Server ist abgebrochen.",
  Untitled: "Ohne Titel",
  "The server does not answer.": "Der Server antwortet nicht.",
  "Go on anyway": "Trotzdem weiterschreiben",
  "Try again": "Noch einmal versuchen",
  "Back to where I was": "Zurück, wo ich war",
  Undo: "Rückgängig",
  "“{0}”": "„{0}“",
  "Choose another model": "Ein anderes Modell wählen",
  Redo: "Wiederholen",
  "The author's note": "Die Autorennotiz",
  "{0}: its text": "{0}: der Text",
  "Pictures ({0}) were left out.": "Bilder ({0}) wurden weggelassen.",
  "The memory": "Das Gedächtnis",
  "The world info": "Das Weltwissen",
  none: "keine",
  "The prompt": "Der Prompt",
  "Node {0}": "Knoten {0}",
  Picture: "Bild",
  Sound: "Ton",
  "The text of node {0}": "Der Text von Knoten {0}",
  "This server keeps no stories: they are kept in this browser only.":
    "Dieser Server speichert keine Geschichten: Sie liegen nur in diesem Browser.",
  Close: "Schließen",
  Branches: "Varianten",
  "Go on": "Weiter",
  "Set aside": "Weglegen",
  More: "Mehr",
  "Branch {0}": "Variante {0}",
  Chapters: "Kapitel",
  Cancel: "Abbrechen",
  "“{0}” is among your downloads.": "„{0}“ ist bei den Downloads.",
  "Import and export": "Einlesen und ausgeben",
  Goals: "Ziele",
  paragraphs: "Absätze",
  "Map of the story": "Landkarte der Geschichte",
  Settings: "Einstellungen",
  "All actions": "Alle Aktionen",
  "Keys and help": "Tasten und Hilfe",
  "Memory and note": "Gedächtnis und Notiz",
  Stories: "Geschichten",
  "Say what happens next": "Sagen, wie es weitergeht",
  Share: "Teilen",
  "Stop at": "Anhalten",
  Model: "Modell",
  "Continue at the text’s end": "Am Ende des Textes weiterschreiben",
  "Sort: the likeliest first, repeats later": "Sortieren: die wahrscheinlichsten zuerst, Wiederholungen später",
  Star: "Stern",
  Note: "Notiz",
  Name: "Name",
  "Compare with the text": "Mit dem Text vergleichen",
  Lorebook: "Weltwissen",
  Search: "Suchen",
  Text: "Text",
  Delete: "Löschen",
  Open: "Öffnen",
  "the server's": "vom Server",
  "set aside": "weggelegt",
  Keep: "Speichern",
  Memory: "Gedächtnis",
  Summary: "Zusammenfassung",
  Instruction: "Anweisung",
  "What the model reads": "Was das Modell liest",
  "{0}’s": "von {0}",
  "is read as {0}": "wird gelesen als {0}",
  Show: "Zeigen",
  "New story": "Neue Geschichte",
  Stop: "Anhalten",
  Take: "Übernehmen",

  // api.js
  "The server does not accept that key.": "Der Server nimmt diesen Schlüssel nicht an.",
  "The server answered {0}.": "Der Server antwortete mit {0}.",
  "The server's answer is not JSON.": "Die Antwort des Servers ist kein JSON.",

  // desk.js
  "This story was put into the bin in another window.":
    "Diese Geschichte wurde in einem anderen Fenster in den Papierkorb gelegt.",
  "Take it out": "Herausnehmen",
  "This part of the page could not be loaded. Try again when the server is back.":
    "Dieser Teil der Seite ließ sich nicht laden. Bitte noch einmal versuchen, wenn der Server wieder da ist.",

  // keep.js
  "This browser has only a part of the story, and keeps it until the server has it.":
    "Dieser Browser hat nur einen Teil der Geschichte und behält ihn, bis der Server ihn hat.",
  "This story is not there any more.": "Diese Geschichte gibt es nicht mehr.",

  // languages.js
  "1 word": "1 Wort",
  "{0} words": "{0} Wörter",

  // media.js
  "is not base64": "ist kein Base64",

  // outline_rows.js
  "(a chapter moved)": "(ein Kapitel verschoben)",
  "(the model would end here)": "(das Modell würde hier enden)",
  "(words taken out)": "(Wörter herausgenommen)",
  "(nothing yet)": "(noch nichts)",

  // sampling.js
  Temperature: "Temperatur",
  "how daring. 0: always the likeliest word": "wie gewagt. 0: immer das wahrscheinlichste Wort",
  "drop words far less likely than the likeliest. Higher is safer":
    "lässt Wörter weg, die viel unwahrscheinlicher sind als das wahrscheinlichste. Höher ist sicherer",
  "choose among the likeliest words that make up this share. 1: all":
    "wählt unter den wahrscheinlichsten Wörtern, die zusammen diesen Anteil haben. 1: alle",
  "choose among this many of the likeliest words. 0: all":
    "wählt unter so vielen der wahrscheinlichsten Wörter. 0: alle",
  "Repeat penalty": "Wiederholungsstrafe",
  "how much repeated words are avoided. 1: off": "wie sehr wiederholte Wörter gemieden werden. 1: aus",
  "Repeat window": "Wiederholungsfenster",
  "how many of the last tokens count as repeated. -1: all":
    "wie viele der letzten Token als wiederholt gelten. -1: alle",
  "Presence penalty": "Vorkommensstrafe",
  "how much words are avoided that have come at all. 0: off":
    "wie sehr Wörter gemieden werden, die schon vorkamen. 0: aus",
  "Frequency penalty": "Häufigkeitsstrafe",
  "how much words are avoided for each time they came. 0: off":
    "wie sehr Wörter für jedes Vorkommen gemieden werden. 0: aus",
  "how much whole repeated phrases are avoided. 0: off, 0.8 is usual":
    "wie sehr ganze wiederholte Wendungen gemieden werden. 0: aus, 0,8 ist üblich",
  "DRY length": "DRY-Länge",
  "tokens of a phrase that may be repeated": "Token einer Wendung, die sich wiederholen darf",
  "DRY window": "DRY-Fenster",
  "how many of the last tokens DRY looks through. -1: all": "wie viele der letzten Token DRY durchsucht. -1: alle",
  "how often the likeliest words are left out. 0: off": "wie oft die wahrscheinlichsten Wörter wegbleiben. 0: aus",
  "XTC threshold": "XTC-Schwelle",
  "how likely a word must be to be left out": "wie wahrscheinlich ein Wort sein muss, um wegzubleiben",
  "prefer words that surprise as much as usual. 1: off": "bevorzugt Wörter, die so sehr überraschen wie üblich. 1: aus",
  "keep words whose score is near the best. -1: off": "behält Wörter, deren Wert nahe am besten liegt. -1: aus",
  "Dynamic temperature": "Bewegliche Temperatur",
  "how far the temperature follows the model's doubt. 0: off":
    "wie weit die Temperatur den Zweifeln des Modells folgt. 0: aus",
  "steer to an even surprise: version 1 or 2. 0: off":
    "steuert auf gleichmäßige Überraschung zu: Version 1 oder 2. 0: aus",
  "Mirostat target": "Mirostat-Ziel",
  "the surprise that Mirostat aims at": "die Überraschung, die Mirostat anstrebt",
  "Mirostat rate": "Mirostat-Tempo",
  "how fast Mirostat adapts": "wie schnell sich Mirostat anpasst",
  "Least length": "Mindestlänge",
  "tokens before which the model may not end the text. 0: none":
    "Token, vor denen das Modell den Text nicht beenden darf. 0: keine",

  // tasks.js
  Rewrite: "Umschreiben",
  Shorter: "Kürzer",
  Longer: "Länger",
  Plainer: "Schlichter",
  "More vivid": "Lebendiger",
  "Other tense": "Andere Zeitform",
  "Other viewpoint": "Andere Perspektive",
  "As dialogue": "Als Dialog",
  Expand: "Ausführen",
  Describe: "Beschreiben",

  // desk/context.js
  "The selection is too long for this model to write it anew: select at most {0} characters.":
    "Die Auswahl ist zu lang, als dass dieses Modell sie neu schreiben könnte: höchstens {0} Zeichen auswählen.",

  // desk/elsewhere.js
  "The text has your 1 word again.": "Das eigene Wort steht wieder im Text.",
  "The text has your {0} words again.": "Die eigenen {0} Wörter stehen wieder im Text.",
  "The text has the 1 word of the other window.": "Das Wort aus dem anderen Fenster steht jetzt im Text.",
  "The text has the {0} words of the other window.": "Die {0} Wörter aus dem anderen Fenster stehen jetzt im Text.",

  // desk/gestures.js
  "The card stands behind what you typed meanwhile: {0}":
    "Die Karte steht hinter dem, was inzwischen getippt wurde: {0}",
  "In place of it": "Stattdessen",
  "This card has no text yet.": "Diese Karte hat noch keinen Text.",
  "The model would end here, and has written nothing.": "Das Modell würde hier enden und hat nichts geschrieben.",
  "No card is empty: prune one first.": "Keine Karte ist leer: erst eine weglegen.",
  "The cards that this was asked for are not shown any more.": "Die Karten, um die es ging, werden nicht mehr gezeigt.",
  "The cards that this was asked for have other texts now.": "Die Karten, um die es ging, haben jetzt andere Texte.",
  "Put the caret at a word: then the words that could stand in its place are shown.":
    "Die Schreibmarke an ein Wort setzen: dann erscheinen die Wörter, die dort stehen könnten.",
  "This round writes with as many requests as the browser can read: stop them, or wait for one.":
    "Diese Runde schreibt mit so vielen Anfragen, wie der Browser lesen kann: anhalten, oder auf eine warten.",

  // desk/live.js
  "The branch was not stopped: {0}": "Die Variante wurde nicht angehalten: {0}",

  // desk/media.js
  "The model is not ready yet: nobody knows whether it takes pictures.":
    "Das Modell ist noch nicht bereit: Niemand weiß, ob es Bilder annimmt.",
  "This model takes text only. For pictures the server is started with the model's projector (setting mmproj).":
    "Dieses Modell nimmt nur Text an. Für Bilder wird der Server mit dem Projektor des Modells gestartet (Einstellung mmproj).",
  "The model's projector (setting mmproj) takes pictures, and no sounds.":
    "Der Projektor des Modells (Einstellung mmproj) nimmt Bilder an, aber keine Töne.",
  "The model's projector (setting mmproj) takes sounds, and no pictures.":
    "Der Projektor des Modells (Einstellung mmproj) nimmt Töne an, aber keine Bilder.",
  "has other bytes than those that were exported": "hat andere Bytes als die ausgegebenen",
  "A picture or sound of the file {0}.": "Ein Bild oder Ton der Datei {0}.",
  "The first picture is not sent: a request takes {0} of them, and {1} MB (setting max_body_bytes).":
    "Das erste Bild wird nicht gesendet: Eine Anfrage fasst {0} davon und {1} MB (Einstellung max_body_bytes).",
  "The first {0} pictures are not sent: a request takes {1} of them, and {2} MB (setting max_body_bytes).":
    "Die ersten {0} Bilder werden nicht gesendet: Eine Anfrage fasst {1} davon und {2} MB (Einstellung max_body_bytes).",
  "Leave them out": "Weglassen",
  "The picture or sound “{0}” is not kept with this story.":
    "Das Bild oder der Ton „{0}“ liegt nicht bei dieser Geschichte.",
  "The text has sounds, and the model that is loaded takes none.":
    "Der Text enthält Töne, und das geladene Modell nimmt keine an.",
  "The text has pictures, and the model that is loaded takes none.":
    "Der Text enthält Bilder, und das geladene Modell nimmt keine an.",

  // desk/media_outbox.js
  "cannot be kept by this browser: {0}": "lässt sich in diesem Browser nicht speichern: {0}",
  "A picture or sound is kept in this browser only. {0}": "Ein Bild oder Ton liegt nur in diesem Browser. {0}",
  "{0} pictures or sounds are kept in this browser only. {1}": "{0} Bilder oder Töne liegen nur in diesem Browser. {1}",

  // desk/moves.js
  "{0} is not in this text. The outline has it.": "{0} steht nicht in diesem Text. Die Gliederung hat es.",
  "{0} and 1 more word are not in this text. The outline has it.":
    "{0} und 1 weiteres Wort stehen nicht in diesem Text. Die Gliederung hat sie.",
  "{0} and {1} more words are not in this text. The outline has it.":
    "{0} und {1} weitere Wörter stehen nicht in diesem Text. Die Gliederung hat sie.",

  // desk/own_copy.js
  "{0}, copied": "{0}, Kopie",

  // desk/sample.js
  "The sample could not be read: the server answered {0}.":
    "Das Beispiel ließ sich nicht lesen: Der Server antwortete mit {0}.",

  // desk/story_trail.js
  "This is where the text began.": "Hier hat der Text begonnen.",
  "Undone as the story has it: this was written before the page was opened.":
    "Rückgängig gemacht, wie es die Geschichte kennt: Das wurde geschrieben, bevor die Seite geöffnet wurde.",

  // desk/successor.js
  "Go on in a new story": "In einer neuen Geschichte weiterschreiben",
  "Go on in a new story, which begins with this text; this one stays in the list.":
    "In einer neuen Geschichte geht es weiter, die mit diesem Text beginnt; diese bleibt in der Liste.",
  "This story is full: what is new is kept in this browser only.":
    "Diese Geschichte ist voll: Neues liegt nur in diesem Browser.",
  "This story is nearly full: there is room for {0} more branches and edits, at most {1} MB.":
    "Diese Geschichte ist fast voll: Platz ist noch für {0} Varianten und Änderungen, höchstens {1} MB.",
  "{0}, continued": "{0}, Fortsetzung",

  // desk/summarize.js
  "The model has written no summary. Try again, or write one yourself.":
    "Das Modell hat keine Zusammenfassung geschrieben. Noch einmal versuchen, oder selbst eine schreiben.",

  // desk/voices.js
  "This server has no model {0}: the round goes without.": "Dieser Server hat kein Modell {0}: Die Runde geht ohne.",
  " and no model ": " und kein Modell ",

  // formats/archive.js
  "{0} holds more than {1} files.": "{0} enthält mehr als {1} Dateien.",
  "{0} in {1} is too large when it is unpacked.": "{0} in {1} ist entpackt zu groß.",
  "{0} is damaged: its archive cannot be unpacked.": "{0} ist beschädigt: Das Archiv lässt sich nicht entpacken.",
  "{0} is damaged: {1} is no text.": "{0} ist beschädigt: {1} ist kein Text.",
  "{0} is damaged: {1} is missing.": "{0} ist beschädigt: {1} fehlt.",

  // formats/chat.js
  "The chat has more than {0} messages.": "Der Chat hat mehr als {0} Nachrichten.",
  "The chat holds no message.": "Der Chat enthält keine Nachricht.",
  "The character's name": "Der Name der Figur",
  "1 hidden message was left out.": "1 verborgene Nachricht wurde weggelassen.",
  "{0} hidden messages were left out.": "{0} verborgene Nachrichten wurden weggelassen.",
  "{0}: its swipes": "{0}: die Alternativen",
  "{0}: a swipe": "{0}: eine Alternative",
  "Line {0} of the chat": "Zeile {0} des Chats",

  // formats/detect.js
  text: "Text",
  "{0} is too large or nested too deeply to be read.":
    "{0} ist zu groß oder zu tief verschachtelt, um gelesen zu werden.",
  "The pasted text": "Der eingefügte Text",
  "{0} is empty.": "{0} ist leer.",
  "{0} is a lorebook: open a story, and import it in the side panel, under Lorebook.":
    "{0} ist ein Weltwissen: eine Geschichte öffnen und es in der Seitenleiste unter „Weltwissen“ einlesen.",
  "{0} is JSON, but no story of {1} or {2}.": "{0} ist JSON, aber keine Geschichte von {1} oder {2}.",
  "{0} is an archive, but neither a Word file (.docx) nor an EPUB. Save it as one of them, or as plain text.":
    "{0} ist ein Archiv, aber weder eine Word-Datei (.docx) noch ein EPUB. Bitte als eins von beiden speichern, oder als reinen Text.",

  // formats/docx_in.js
  "{0} is damaged: {1} was cut short.": "{0} ist beschädigt: {1} ist abgeschnitten.",

  // formats/epub_in.js
  "Pages of the book ({0}) are missing in the file.": "In der Datei fehlen Seiten des Buchs ({0}).",
  "{0} is locked by a copy protection.": "{0} ist durch einen Kopierschutz gesperrt.",

  // formats/exoloom.js
  "The tree": "Der Baum",
  "The list of pruned nodes": "Die Liste der weggelegten Knoten",
  "The list of nodes": "Die Liste der Knoten",
  "Node “{0}”": "Knoten „{0}“",
  "The title": "Der Titel",
  "The children of node “{0}”": "Die Liste der Kinder von Knoten „{0}“",

  // formats/file.js
  "{0} is a PDF. Save it as plain text (UTF-8) and import that.":
    "{0} ist ein PDF. Bitte als reinen Text (UTF-8) speichern und den einlesen.",
  "{0} is an image. Save it as plain text (UTF-8) and import that.":
    "{0} ist ein Bild. Bitte als reinen Text (UTF-8) speichern und den einlesen.",
  "{0} is compressed. Save it as plain text (UTF-8) and import that.":
    "{0} ist komprimiert. Bitte als reinen Text (UTF-8) speichern und den einlesen.",
  "{0} is of Word before 2007. Save it as plain text (UTF-8) and import that.":
    "{0} stammt von Word vor 2007. Bitte als reinen Text (UTF-8) speichern und den einlesen.",
  "{0} has {1} MB; the largest story that can be read has {2} MB.":
    "{0} hat {1} MB; die größte lesbare Geschichte hat {2} MB.",
  "{0} has {1} MB; the largest file that can be read has {2} MB.":
    "{0} hat {1} MB; die größte lesbare Datei hat {2} MB.",
  "{0} is not a text file.": "{0} ist keine Textdatei.",
  "1 byte is damaged: the sign � stands there.": "1 Byte ist beschädigt: Dort steht das Zeichen �.",
  "{0} bytes are damaged: the sign � stands there.": "{0} Bytes sind beschädigt: Dort steht das Zeichen �.",
  "{0} is nested too deeply to be read.": "{0} ist zu tief verschachtelt, um gelesen zu werden.",
  "{0} is not valid JSON; perhaps it was cut short ({1}).":
    "{0} ist kein gültiges JSON; vielleicht abgeschnitten ({1}).",
  "{0} is {1}, not a text.": "{0} sollte ein Text sein, ist aber {1}.",
  "{0} has half of a character (a lone UTF-16 surrogate).":
    "{0} enthält ein halbes Zeichen (ein einzelnes UTF-16-Surrogat).",
  "{0} is {1}, not an object.": "{0} sollte ein Objekt sein, ist aber {1}.",
  "{0} is {1}, not a list.": "{0} sollte eine Liste sein, ist aber {1}.",
  missing: "nicht vorhanden",
  "a list": "eine Liste",
  "an object": "ein Objekt",
  "a string": "eine Zeichenkette",
  "a number": "eine Zahl",
  "a boolean": "ein Wahrheitswert",

  // formats/html_in.js
  "1 footnote was left out.": "1 Fußnote wurde weggelassen.",
  "{0} footnotes were left out.": "{0} Fußnoten wurden weggelassen.",

  // formats/lite.js
  "The list of other branches": "Die Liste der anderen Varianten",
  "A branch": "Eine Variante",
  "The save holds no text.": "Der Spielstand enthält keinen Text.",
  "The story's name": "Der Name der Geschichte",
  "Chunk {0}": "Stück {0}",
  "The list of actions": "Die Liste der Züge",
  "A list of alternatives": "Eine Liste von Alternativen",
  "An action": "Ein Zug",
  "An alternative": "Eine Alternative",
  "The author's note's template": "Die Vorlage der Autorennotiz",
  "The personal notes were left out.": "Die persönlichen Notizen wurden weggelassen.",

  // formats/lorebook_files.js
  "{0} is no lorebook or card of SillyTavern, NovelAI, KoboldAI, mikupad or SRB.":
    "{0} ist kein Weltwissen und keine Karte von SillyTavern, NovelAI, KoboldAI, mikupad oder SRB.",

  // formats/lorebooks.js
  "{0}: its name": "{0}: der Name",
  "The lorebook has more than {0} entries.": "Das Weltwissen hat mehr als {0} Einträge.",
  "{0}: its list of keywords": "{0}: die Liste der Stichwörter",
  "{0}: a keyword": "{0}: ein Stichwort",
  "1 keyword is a pattern (/…/), which are compared as they are written.":
    "1 Stichwort ist ein Muster (/…/); verglichen wird es, wie es dasteht.",
  "{0} keywords are patterns (/…/), which are compared as they are written.":
    "{0} Stichwörter sind Muster (/…/); verglichen werden sie, wie sie dastehen.",
  "1 entry comes by chance there, and whenever a keyword does here.":
    "1 Eintrag kommt dort nach Zufall, und hier immer, wenn ein Stichwort vorkommt.",
  "{0} entries come by chance there, and whenever a keyword does here.":
    "{0} Einträge kommen dort nach Zufall, und hier immer, wenn ein Stichwort vorkommt.",
  "The lorebook's “data”": "Der Wert „data“ des Weltwissens",
  "The lorebook is of version {0}; this page reads version 1.":
    "Version des Weltwissens: {0}; diese Seite liest Version 1.",
  "The list of entries": "Die Liste der Einträge",
  "The list of the card's entries": "Die Liste der Einträge der Karte",
  "The card's name": "Der Name der Karte",
  "The card's “{0}”": "Der Wert „{0}“ der Karte",
  "The character": "Die Figur",
  "The card's “character_book”": "Der Wert „character_book“ der Karte",
  "The card's greeting and examples were left out.": "Begrüßung und Beispiele der Karte wurden weggelassen.",
  "The list of categories": "Die Liste der Kategorien",
  "The lorebook's list of entries": "Die Liste der Einträge des Weltwissens",
  "The list of world info": "Die Liste des Weltwissens",
  "Entry {0} of the lorebook": "Eintrag {0} des Weltwissens",
  "{0} is {1}, neither true nor false.": "{0} sollte true oder false sein, ist aber {1}.",
  "{0}: “contextConfig”": "{0}: „contextConfig“",

  // formats/mikupad.js
  "The mikupad session holds no text.": "Die Sitzung von mikupad enthält keinen Text.",
  "The session's name": "Der Name der Sitzung",
  "The session's field “{0}”": "Das Feld „{0}“ der Sitzung",
  "Chunk {0} of the prompt": "Stück {0} des Prompts",
  "Chunk {0} of the prompt has no text.": "Stück {0} des Prompts hat keinen Text.",
  "{0}'s text": "{0}: der Text",

  // formats/msgpack.js
  "The document was cut short.": "Das Dokument ist abgeschnitten.",
  "The document is nested more than {0} levels deep.": "Das Dokument ist mehr als {0} Stufen tief verschachtelt.",
  "The document refers to strings that it lacks.": "Das Dokument verweist auf Zeichenketten, die ihm fehlen.",
  "The document has a record whose keys it does not name.":
    "Das Dokument hat einen Datensatz, dessen Schlüssel es nicht nennt.",
  "The document has more kinds of records than can be read here.":
    "Das Dokument hat mehr Arten von Datensätzen, als hier gelesen werden können.",
  "The document names no keys of a record.": "Das Dokument nennt keine Schlüssel zu einem Datensatz.",
  "The document has a value of a kind ({0}) that is not known here.":
    "Das Dokument hat einen Wert, dessen Art ({0}) hier nicht bekannt ist.",
  "The document's strings are no strings.": "Die Zeichenketten des Dokuments sind keine.",

  // formats/novelai.js
  "The story's “content”": "Der Wert „content“ der Geschichte",
  "The story's “metadata”": "Der Wert „metadata“ der Geschichte",
  "The story holds no text.": "Die Geschichte enthält keinen Text.",
  "The list “context”": "Die Liste „context“",
  "Part {0} of “context”": "Teil {0} von „context“",
  "The story's lorebook": "Das Weltwissen der Geschichte",
  "The story's title": "Der Titel der Geschichte",
  "The story's text": "Der Text der Geschichte",
  "The list of fragments": "Die Liste der Fragmente",
  "Fragment {0}": "Fragment {0}",
  "The story's document": "Das Dokument der Geschichte",
  "The story's document holds no paragraphs.": "Das Dokument der Geschichte enthält keine Absätze.",
  "1 part that is no text was left out.": "1 Teil, der kein Text ist, wurde weggelassen.",
  "{0} parts that are no text were left out.": "{0} Teile, die kein Text sind, wurden weggelassen.",
  "It was saved amid a change: look whether the last one is in the text.":
    "Gespeichert wurde mitten in einer Änderung: bitte nachsehen, ob die letzte im Text steht.",
  "Its history, with what was tried again or taken back, was left out.":
    "Der Verlauf mit allem, was neu versucht oder zurückgenommen wurde, ist weggelassen.",
  "The story's document {0}.": "Das Dokument der Geschichte {0}.",

  // formats/obsidian_loom.js
  "The list of notes": "Die Liste der Notizen",
  "None of the notes in this file has a node.": "Keine der Notizen in dieser Datei hat einen Knoten.",
  "1 note without nodes was left out.": "1 Notiz ohne Knoten wurde weggelassen.",
  "{0} notes without nodes were left out.": "{0} Notizen ohne Knoten wurden weggelassen.",
  "Note {0}: {1}": "Notiz {0}: {1}",
  "This file of Obsidian Loom has no nodes.": "Diese Datei von Obsidian Loom hat keine Knoten.",

  // formats/png_text.js
  "{0} is a picture without a card or a lorebook in it.":
    "{0} ist ein Bild, in dem weder eine Karte noch ein Weltwissen steckt.",
  "The card in {0} (“{1}”) is damaged: it is no text in base64.":
    "Die Karte in {0} („{1}“) ist beschädigt: Sie ist kein Text in Base64.",
  "{0} was cut short in its chunk {1}.": "{0} ist im Abschnitt {1} abgeschnitten.",

  // formats/prose.js
  "The file has more than {0} million characters of text.": "Die Datei hat mehr als {0} Millionen Zeichen Text.",
  "The file holds no text.": "Die Datei enthält keinen Text.",

  // formats/rtf.js
  "The Rich Text is damaged: it was cut short.": "Das Rich-Text-Dokument ist beschädigt: Es ist abgeschnitten.",
  "The Rich Text is nested too deeply to be read.":
    "Das Rich-Text-Dokument ist zu tief verschachtelt, um gelesen zu werden.",

  // formats/segment_cuts.js
  "Obsidian Loom has no edits in the middle of a text, so each becomes a copy of the text's rest: that would be more than 64 MB here. Export the SRB story instead.":
    "Obsidian Loom kennt keine Änderungen mitten im Text, also wird jede zu einer Kopie des restlichen Texts: Das wären hier mehr als 64 MB. Bitte stattdessen die SRB-Geschichte ausgeben.",

  // formats/segments.js
  "The file has more than {0} nodes, the most of a story.":
    "Die Datei hat mehr als {0} Knoten; mehr kann keine Geschichte haben.",
  "Two nodes have the same id, {0}.": "Zwei Knoten haben dieselbe Kennung, {0}.",
  "The parent of 1 node is missing in the file, so each became a beginning of its own.":
    "In der Datei fehlt, woran 1 Knoten hängt; er wurde ein eigener Anfang.",
  "The parent of {0} nodes is missing in the file, so each became a beginning of its own.":
    "In der Datei fehlt, woran {0} Knoten hängen; jeder wurde ein eigener Anfang.",
  "Node {0} is its own ancestor, so there is no text that it could continue.":
    "Knoten {0} ist sein eigener Vorfahr; es gibt also keinen Text, den er fortsetzen könnte.",
  "{0} has {1} characters; it may have {2}.": "{0} hat {1} Zeichen; erlaubt sind {2}.",

  // formats/socketteer.js
  "The children of node {0}": "Die Liste der Kinder von Knoten {0}",
  "Memories of 1 node were left out.": "Gedächtnistexte von 1 Knoten wurden weggelassen.",
  "Memories of {0} nodes were left out.": "Gedächtnistexte von {0} Knoten wurden weggelassen.",
  "The list of chapters": "Die Liste der Kapitel",
  "A chapter": "Ein Kapitel",
  "A chapter's title": "Der Titel eines Kapitels",
  "The global context": "Der globale Kontext",

  // formats/text.js
  "The text": "Der Text",

  // formats/write.js
  "SRB story": "SRB-Geschichte",
  "everything: all branches, names, stars, settings, pictures and sounds":
    "alles: sämtliche Varianten, Namen, Sterne, Einstellungen, Bilder und Töne",
  "Plain text": "Reiner Text",
  "the manuscript, character by character": "das Manuskript, Zeichen für Zeichen",
  "the manuscript with its pictures; names become headings":
    "das Manuskript mit seinen Bildern; Namen werden Überschriften",
  "the manuscript with its emphasis and pictures, each chapter on a new page":
    "das Manuskript mit Hervorhebungen und Bildern, jedes Kapitel auf einer neuen Seite",
  "the manuscript as a book with its chapters, emphasis and pictures":
    "das Manuskript als Buch mit Kapiteln, Hervorhebungen und Bildern",
  "Web page": "Webseite",
  "the manuscript as one page with its chapters, emphasis and pictures":
    "das Manuskript als eine Seite mit Kapiteln, Hervorhebungen und Bildern",
  "all branches and stars, cut into segments": "alle Varianten und Sterne, in Abschnitte geteilt",
  "story {0}": "Geschichte {0}",

  // keep/safekeeping.js
  "it is full": "der Speicher ist voll",

  // keep/server.js
  "The server cannot save: {0}": "Der Server kann nicht speichern: {0}",
  "The server refused to save: {0}": "Der Server lehnt das Speichern ab: {0}",
  "The server wants its API key before it saves.": "Der Server verlangt seinen API-Schlüssel, bevor er speichert.",
  "The server does not let this page save: {0}": "Der Server lässt diese Seite nicht speichern: {0}",
  "The server cannot save now: {0}": "Der Server kann gerade nicht speichern: {0}",

  // keep/standing.js
  "This browser keeps nothing either: export the story before you close this page.":
    "Auch dieser Browser speichert nichts: die Geschichte ausgeben, bevor diese Seite geschlossen wird.",
  "A piece of the text could not be saved: {0}. This browser keeps them; export the story to keep them elsewhere.":
    "Ein Stück des Texts ließ sich nicht speichern: {0}. Dieser Browser behält es; um es anderswo zu behalten, die Geschichte ausgeben.",
  "{0} pieces of the text could not be saved: {1}. This browser keeps them; export the story to keep them elsewhere.":
    "{0} Stücke des Texts ließen sich nicht speichern: {1}. Dieser Browser behält sie; um sie anderswo zu behalten, die Geschichte ausgeben.",
  "Your words are kept in this browser until the server has them.":
    "Dieser Browser behält alle Wörter, bis der Server sie hat.",
  "Its owner": "Die andere Person",
  "{0} lets you read this story, and does not get what you change: it stays in this browser.":
    "Diese Geschichte ist nur zum Lesen geteilt. {0} bekommt Änderungen nicht: Sie bleiben in diesem Browser.",
  "{0} lets you read this story, and does not get what you change: nothing keeps it.":
    "Diese Geschichte ist nur zum Lesen geteilt. {0} bekommt Änderungen nicht: Nichts behält sie.",
  "{0} does not share this story with you any more, and does not get what you change: it stays in this browser.":
    "{0} teilt diese Geschichte nicht mehr und bekommt Änderungen nicht: Sie bleiben in diesem Browser.",
  "{0} does not share this story with you any more, and does not get what you change: nothing keeps it.":
    "{0} teilt diese Geschichte nicht mehr und bekommt Änderungen nicht: Nichts behält sie.",
  "Stories are kept by the server at {0}. Every browser that reaches it finds them.":
    "Geschichten liegen auf dem Server {0}. Jeder Browser, der ihn erreicht, findet sie.",
  "Neither the server nor this browser keeps stories: export a story before you close this page.":
    "Weder der Server noch dieser Browser speichert Geschichten: eine Geschichte ausgeben, bevor diese Seite geschlossen wird.",
  "This server keeps no stories: they are in this browser only, and go with its data. Export those that matter.":
    "Dieser Server speichert keine Geschichten: Sie liegen nur in diesem Browser und verschwinden mit seinen Daten. Wichtige besser ausgeben.",
  "Not saved yet.": "Noch nicht gespeichert.",
  "Saved in this browser.": "In diesem Browser gespeichert.",
  "Saved on the server.": "Auf dem Server gespeichert.",
  "Saved in this browser at {0}.": "In diesem Browser gespeichert um {0}.",
  "Saved on the server at {0}.": "Auf dem Server gespeichert um {0}.",

  // lore/entries.js
  "{0} is not an object.": "{0} ist kein Objekt.",
  "{0}: “{1}” is not a text.": "{0}: „{1}“ ist kein Text.",
  "{0}: “{1}” has {2} characters; it may have {3}.": "{0}: „{1}“ hat {2} Zeichen; erlaubt sind {3}.",
  "{0}: “{1}” is not a list of texts.": "{0}: „{1}“ ist keine Liste von Texten.",
  "{0}: “{1}” has {2} keywords; it may have {3}.": "{0}: „{1}“ hat {2} Stichwörter; erlaubt sind {3}.",
  "{0}: a keyword of “{1}” has {2} characters; it may have {3}.":
    "{0}: Ein Stichwort von „{1}“ hat {2} Zeichen; erlaubt sind {3}.",
  "{0}: “{1}” is neither true nor false.": "{0}: „{1}“ ist weder true noch false.",
  "{0}: “order” is not a number between -{1} and {2}.": "{0}: „order“ ist keine Zahl zwischen -{1} und {2}.",
  "{0}: “rule” is none of {1}.": "{0}: „rule“ ist keins von {1}.",

  // parts/alternatives.js
  "In place of “{0}”": "Anstelle von „{0}“",
  "The model is asked …": "Das Modell wird gefragt …",
  "No other word is likely here.": "Kein anderes Wort ist hier wahrscheinlich.",
  "as it is": "wie es ist",

  // parts/banned_words.js
  "Banned words and phrases": "Verbotene Wörter und Wendungen",
  "one in a line; they never come in a branch, in capitals or not":
    "je eine in einer Zeile; sie kommen in keiner Variante vor, ob groß oder klein geschrieben",
  "At most {0} words and phrases can be banned; these are {1}.":
    "Höchstens {0} Wörter und Wendungen können verboten werden; dies sind {1}.",
  "A banned phrase has at most {0} characters.": "Eine verbotene Wendung hat höchstens {0} Zeichen.",

  // parts/branches.js
  Cards: "Karten",
  "{0} failed": "{0} gescheitert",
  "No mark.": "Keine Marke.",
  "Marked up to: {0}": "Markiert bis: {0}",
  "That is not possible here now.": "Das ist hier gerade nicht möglich.",
  "There is no card {0}.": "Es gibt keine Karte {0}.",
  one: "eine",
  two: "zwei",
  three: "drei",
  four: "vier",
  five: "fünf",
  six: "sechs",
  seven: "sieben",
  eight: "acht",
  nine: "neun",
  ten: "zehn",
  eleven: "elf",
  twelve: "zwölf",
  "{0} is being written": "{0} wird geschrieben",
  "{0} is still being written": "{0} wird noch geschrieben",
  "{0} are being written": "{0} werden geschrieben",
  "{0} are still being written": "{0} werden noch geschrieben",

  // parts/card.js
  Read: "Lesen",
  "Read the whole text (Space)": "Den ganzen Text lesen (Leertaste)",
  Vary: "Abwandeln",
  "More like this one, from the mark on (V)": "Mehr davon, ab der Marke (V)",
  "Let this text go on (E)": "Diesen Text weiterschreiben lassen (E)",
  "Set aside, and stop writing (X)": "Weglegen und nicht weiterschreiben (X)",
  "More that can be done with this card": "Mehr, was mit dieser Karte möglich ist",
  "Already in your text": "Steht schon im Text",
  "Take to mark: branch {0}": "Bis zur Marke übernehmen: Variante {0}",
  "Take: branch {0}": "Übernehmen: Variante {0}",
  "Take to mark, and go on from there ({0})": "Bis zur Marke übernehmen und von dort weiterschreiben ({0})",
  "Take, and go on from there ({0})": "Übernehmen und von dort weiterschreiben ({0})",
  "Marked up to “{0}”.": "Markiert bis „{0}“.",
  "Already in your text: 1 sentence.": "Steht schon im Text: 1 Satz.",
  "Already in your text: {0} sentences.": "Stehen schon im Text: {0} Sätze.",
  "Has a star.": "Hat einen Stern.",
  "Note: {0}": "Notiz: {0}",
  "Key {0} takes it.": "Taste {0} übernimmt sie.",
  "By {0}.": "Von {0}.",

  // parts/chapters.js
  "“{0}” is {1} of {2} now.": "„{0}“ ist jetzt {1} von {2}.",
  "“{0}” has the goal of all chapters now.": "„{0}“ hat jetzt das Ziel aller Kapitel.",
  "“{0}” has no goal now.": "„{0}“ hat jetzt kein Ziel.",
  "“{0}” is to have {1}.": "„{0}“ soll {1} haben.",
  "<kbd>Enter</kbd> goes there, <kbd>Alt</kbd>+<kbd>↑</kbd> <kbd>↓</kbd> moves the chapter.":
    "<kbd>Eingabe</kbd> führt dorthin, <kbd>Alt</kbd>+<kbd>↑</kbd> <kbd>↓</kbd> verschiebt das Kapitel.",
  "A chapter begins at a line with <code>##</code> before its title, as <code>## The Salt Road</code>, and at a branch with a name.":
    "Ein Kapitel beginnt an einer Zeile mit <code>##</code> vor seinem Titel, wie <code>## Die Salzstraße</code>, und an einer Variante mit einem Namen.",
  "Goal of words: {0}": "Ziel in Wörtern: {0}",
  Goal: "Ziel",
  "Move up": "Nach oben",
  "Move down": "Nach unten",
  "{0} of {1}": "{0} von {1}",
  "Words of this chapter": "Wörter dieses Kapitels",
  "no goal": "kein Ziel",
  Set: "Setzen",

  // parts/comments.js
  "Select the words that the comment is on: then it can be written.":
    "Die Wörter auswählen, denen der Kommentar gilt: Dann kann er geschrieben werden.",
  "The comment was taken away.": "Der Kommentar wurde entfernt.",
  Comments: "Kommentare",
  "Remarks on words of the text. The model reads none of them.":
    "Anmerkungen zu Wörtern des Textes. Das Modell liest keine davon.",
  "Comment on the selection": "Auswahl kommentieren",
  "Show these words": "Diese Wörter zeigen",
  "not in this text": "nicht in diesem Text",
  "Comment on {0}": "Kommentar zu {0}",
  "Take away the comment on {0}": "Den Kommentar zu {0} entfernen",
  "Take it away": "Entfernen",

  // parts/file_drops.js
  "Drop a picture or sound to put it into the text, or a story to import it":
    "Ein Bild oder einen Ton hier ablegen, um ihn in den Text einzufügen, oder eine Geschichte, um sie einzulesen",

  // parts/focus_mode.js
  "Show everything": "Alles zeigen",

  // parts/formats.js
  "The story is too large for a file of this browser. The command `srb stories export` writes it.":
    "Die Geschichte ist zu groß für eine Datei dieses Browsers. Der Befehl `srb stories export` schreibt sie.",
  "Reading …": "Wird gelesen …",
  "Nothing was imported.": "Nichts wurde eingelesen.",
  "Choose at least one story.": "Mindestens eine Geschichte wählen.",
  "“{0}” is among your downloads, without 1 picture or sound: {1}":
    "„{0}“ ist bei den Downloads, ohne 1 Bild oder Ton: {1}",
  "“{0}” is among your downloads, without {1} pictures or sounds: {2}":
    "„{0}“ ist bei den Downloads, ohne {1} Bilder oder Töne: {2}",
  "Import a story": "Eine Geschichte einlesen",
  "From SRB; Word, EPUB, HTML, Rich Text, Markdown or plain text; Obsidian Loom (a note, or the plugin's data.json), socketteer's loom, mikupad, KoboldAI, NovelAI, Exoloom, or a chat of SillyTavern.":
    "Aus SRB; Word, EPUB, HTML, Rich Text, Markdown oder reiner Text; Obsidian Loom (eine Notiz oder die data.json der Erweiterung), das Loom von socketteer, mikupad, KoboldAI, NovelAI, Exoloom oder ein Chat von SillyTavern.",
  "It becomes a story of its own, with all its branches.":
    "Daraus wird eine eigene Geschichte, mit allen ihren Varianten.",
  "Choose files, or drop them anywhere": "Dateien wählen oder irgendwo ablegen",
  "Or paste a story": "Oder eine Geschichte einfügen",
  "Import what was pasted": "Eingefügtes einlesen",
  "Export “{0}”": "„{0}“ ausgeben",
  Author: "Autor",
  "{0} stories from {1}": "{0} Geschichten aus {1}",
  "Import the chosen": "Gewählte einlesen",
  "several programs": "mehreren Programmen",
  "1 root": "1 Wurzel",
  "{0} roots": "{0} Wurzeln",
  "Imported {0} in {1} from {2}.": "{0} in {1} aus {2} eingelesen.",
  "Imported {0} stories with {1} in {2} from {3}.": "{0} Geschichten mit {1} in {2} aus {3} eingelesen.",
  "1 node": "1 Knoten",
  "{0} nodes": "{0} Knoten",
  "“{0}” is a story of its own now: the one from which the file was exported has other texts.":
    "„{0}“ ist jetzt eine eigene Geschichte: Die, aus der die Datei ausgegeben wurde, hat andere Texte.",

  // parts/goals.js
  "Words a day": "Wörter am Tag",
  "Words of each chapter": "Wörter jedes Kapitels",
  "They belong to this story; the header says how far you are.":
    "Sie gehören zu dieser Geschichte; die Kopfzeile sagt, wie weit es ist.",
  "A day counts the words that the text has more than at its first change of the day.":
    "Ein Tag zählt die Wörter, die der Text mehr hat als bei seiner ersten Änderung des Tages.",
  "Without a number there is no goal. The list of chapters gives a chapter another goal than the others.":
    "Ohne Zahl gibt es kein Ziel. In der Liste der Kapitel bekommt ein Kapitel ein anderes Ziel als die übrigen.",

  // parts/goals_line.js
  "{0} of {1} today": "{0} von {1} heute",
  "{0} of {1} in the chapter": "{0} von {1} im Kapitel",

  // parts/header.js
  "full lengths": "volle Längen",
  words: "Wörter",
  lines: "Zeilen",
  sentences: "Sätze",
  "memory cut": "Gedächtnis gekürzt",
  "note cut": "Notiz gekürzt",
  "Memory and author’s note (Alt+M)": "Gedächtnis und Autorennotiz (Alt+M)",
  "Undo (Ctrl+Z)": "Rückgängig (Strg+Z)",
  "Redo (Ctrl+Shift+Z)": "Wiederholen (Strg+Umschalt+Z)",
  "The next round": "Die nächste Runde",
  "Ctrl+Enter": "Strg+Eingabe",
  "How many": "Wie viele",
  "Where they stop": "Wo sie enden",
  "Revise …": "Überarbeiten …",
  "Continue here": "Hier weiterschreiben",
  Continue: "Weiterschreiben",
  "Choose the model": "Das Modell wählen",
  "Add a picture": "Ein Bild einfügen",
  "Add a sound": "Einen Ton einfügen",
  "{0} of {1} tokens of the model's context; {2} characters at the beginning are not sent":
    "{0} von {1} Token des Kontexts; {2} Zeichen am Anfang werden nicht gesendet",
  "{0} of {1} tokens of the model's context": "{0} von {1} Token des Kontexts",
  context: "Kontext",
  "Context used": "Belegter Kontext",
  "beginning cut": "Anfang gekürzt",
  "saved at {0}": "gespeichert um {0}",
  saved: "gespeichert",
  "saving …": "wird gespeichert …",
  "kept in this browser until the server is back": "in diesem Browser aufbewahrt, bis der Server wieder da ist",
  "kept in this browser only": "nur in diesem Browser aufbewahrt",
  "to read only": "nur zum Lesen",
  "not saved: the server cannot write": "nicht gespeichert: Der Server kann nicht schreiben",
  "not saved": "nicht gespeichert",

  // parts/help.js
  Tap: "Tippen",
  "Open a branch; then on a word: mark it, and what is taken ends there":
    "Öffnet eine Variante; dann auf ein Wort: markiert es, und das Übernommene endet dort",
  Swipe: "Wischen",
  "To the right: the branch becomes part of the text, and the next round begins":
    "Nach rechts: Die Variante wird Teil des Textes, und die nächste Runde beginnt",
  "To the left: set it aside": "Nach links: weglegen",
  "All that can be done with a branch": "Alles, was mit einer Variante möglich ist",
  "More or less room for the branches": "Mehr oder weniger Platz für die Varianten",
  Anywhere: "Überall",
  "Continue: the model goes on in n branches, where the caret is":
    "Weiterschreiben: Das Modell schreibt in n Varianten weiter, wo die Schreibmarke steht",
  "With words selected: write them anew, in n ways": "Mit ausgewählten Wörtern: sie neu schreiben, auf n Arten",
  "Stop all branches and keep their texts; once more: back to the manuscript":
    "Alle Varianten anhalten und ihre Texte behalten; noch einmal: zurück zum Manuskript",
  "Undo typing, taking, setting aside, grouping and naming, in their order":
    "Tippen, Übernehmen, Weglegen, Gruppieren und Benennen rückgängig machen, der Reihe nach",
  "All actions in one list; there each can get a key of one’s own":
    "Alle Aktionen in einer Liste; dort kann jede eine eigene Taste bekommen",
  "Focus: the text alone; once more, everything again": "Fokus: der Text allein; noch einmal: wieder alles",
  "The next pane: manuscript, branches, outline, header, memory and note":
    "Der nächste Bereich: Manuskript, Varianten, Gliederung, Kopfzeile, Gedächtnis und Notiz",
  "Memory and note, beside the text; Esc there: back to the text":
    "Gedächtnis und Notiz neben dem Text; Esc dort: zurück zum Text",
  "The chapters: Enter goes to one, Alt+↑ ↓ moves it": "Die Kapitel: Eingabe führt zu einem, Alt+↑ ↓ verschiebt es",
  "Say whether everything is saved; it is saved without it":
    "Sagen, ob alles gespeichert ist; gespeichert wird auch ohne",
  "In the manuscript": "Im Manuskript",
  "Find and replace": "Suchen und ersetzen",
  "Italics, bold: the selection, the word at the caret, or what is typed next; once more takes it away":
    "Kursiv, fett: die Auswahl, das Wort an der Schreibmarke oder was als Nächstes getippt wird; noch einmal nimmt es zurück",
  "Alternatives of the word at the caret; the one that is chosen begins another version from there":
    "Andere Wörter an der Schreibmarke; das gewählte beginnt von dort eine andere Fassung",
  "Digits and letters are text here, always": "Ziffern und Buchstaben sind hier immer Text",
  "In the branches": "In den Varianten",
  "Take this branch and continue": "Diese Variante übernehmen und weiterschreiben",
  "Take it only": "Nur übernehmen",
  "Move between the branches": "Zwischen den Varianten wechseln",
  "Take the branch in focus, up to its mark": "Die Variante im Fokus übernehmen, bis zu ihrer Marke",
  "Read it whole; ← → go to the next one at the same place": "Ganz lesen; ← → führen an derselben Stelle zur nächsten",
  "Move the mark by a word; a click on a word sets it":
    "Die Marke um ein Wort verschieben; ein Klick auf ein Wort setzt sie",
  "Move the mark to the sentence's end": "Die Marke ans Satzende setzen",
  "Set aside: end this branch": "Weglegen: diese Variante beenden",
  "Try others in the empty places": "An den leeren Stellen andere versuchen",
  "Let a branch go on": "Eine Variante weiterschreiben lassen",
  "Vary: other branches from the mark on": "Abwandeln: andere Varianten ab der Marke",
  "As many branches more": "Noch einmal so viele Varianten",
  "Alternatives of the word at the mark": "Andere Wörter an der Marke",
  "Group equal branches": "Gleiche Varianten gruppieren",
  "Back to the text": "Zurück zum Text",
  "Of more than ten branches: other ten digits": "Bei mehr als zehn Varianten: zehn andere Ziffern",
  "In the outline": "In der Gliederung",
  "Move through the rows; Home, End, PageUp and PageDown too":
    "Durch die Zeilen gehen; auch mit Pos1, Ende, Bild↑ und Bild↓",
  "Open the fork, or go on to the next row": "Die Gabelung öffnen oder zur nächsten Zeile gehen",
  "Close the fork, or go to the parent": "Die Gabelung schließen oder zur übergeordneten gehen",
  "Make this branch the manuscript": "Diese Variante zum Manuskript machen",
  "Set aside; once more: take it back": "Weglegen; noch einmal: zurückholen",
  Keys: "Tasten",
  "Write, let the model continue, read the branches, take the one you like or its beginning, and write on.":
    "Schreiben, das Modell weiterschreiben lassen, die Varianten lesen, die beste oder ihren Anfang übernehmen und weiterschreiben.",
  "Nothing is lost: every branch stays in the outline.":
    "Nichts geht verloren: Jede Variante bleibt in der Gliederung.",
  "With a finger": "Mit dem Finger",

  // parts/key_names.js
  "Ctrl Shift Enter Space Delete PageUp PageDown Backspace":
    "Strg Umschalt Eingabe Leertaste Entf Bild↑ Bild↓ Rücktaste",

  // parts/language.js
  Language: "Sprache",
  "“{0}” is no language that programs know: write it as en, de or pt-BR, or leave it empty.":
    "„{0}“ ist keine Sprache, die Programme kennen: als en, de oder pt-BR schreiben oder leer lassen.",

  // parts/layout.js
  "Width of the manuscript": "Breite des Manuskripts",
  "Make the branches' sheet higher": "Den Bereich der Varianten höher machen",
  "Make the branches' sheet lower": "Den Bereich der Varianten niedriger machen",

  // parts/lorebook.js
  "Words in which keywords are looked for": "Wörter, in denen Schlüsselwörter gesucht werden",
  "Tokens that the entries may take": "Token, die die Einträge belegen dürfen",
  "one of them": "eines davon",
  "all of them": "alle davon",
  "none of them": "keines davon",
  "not all of them": "nicht alle davon",
  "The entry": "Der Eintrag",
  "“{0}” is no entry of the lorebook any more.": "„{0}“ ist kein Eintrag des Weltwissens mehr.",
  "People, places and things, each with keywords. The model reads an entry while the text speaks of it.":
    "Personen, Orte und Dinge, jedes mit Schlüsselwörtern. Das Modell liest einen Eintrag, solange der Text davon spricht.",
  "… and {0} more: search for them.": "… und {0} weitere: danach suchen.",
  "Add an entry": "Einen Eintrag hinzufügen",
  "Search the lorebook": "Das Weltwissen durchsuchen",
  Keywords: "Schlüsselwörter",
  "with commas between them": "mit Kommas dazwischen",
  On: "An",
  "Always read": "Immer lesen",
  "Capitals count": "Groß und klein unterscheiden",
  Order: "Rang",
  "Where not all fit, entries of a higher order go first.":
    "Wo nicht alle Platz haben, gehen Einträge von höherem Rang vor.",
  "Second keywords": "Weitere Schlüsselwörter",
  "looked for beside the first ones": "neben den ersten gesucht",
  "of which the text has": "von denen der Text enthält:",
  "Keywords count in the last {0} words of the text; all entries take {1} tokens at most.":
    "Schlüsselwörter zählen in den letzten {0} Wörtern des Textes; alle Einträge belegen höchstens {1} Token.",
  "A lorebook or a card of SillyTavern, NovelAI, KoboldAI, mikupad or SRB":
    "Ein Weltwissen oder eine Figurenkarte von SillyTavern, NovelAI, KoboldAI, mikupad oder SRB",
  "Export for SRB": "Für SRB ausgeben",
  "Export for SillyTavern": "Für SillyTavern ausgeben",
  "The file has {0} entries; there is room for {1}.": "Die Datei hat {0} Einträge; Platz ist für {1}.",
  "{0} came in.": "{0} hinzugefügt.",
  "1 entry": "1 Eintrag",
  "{0} entries": "{0} Einträge",
  off: "aus",
  always: "immer",
  "in this round": "in dieser Runde",
  "no room": "kein Platz",

  // parts/manuscript.js
  "the model's words": "Wörter des Modells",
  yours: "eigene",
  "your edits in its text": "eigene Änderungen darin",

  // parts/map.js
  Map: "Landkarte der Geschichte",
  "1 node.": "1 Knoten.",
  "{0} nodes.": "{0} Knoten.",
  "Arrow keys walk, Enter opens, drag to move, wheel or + and − to enlarge.":
    "Pfeiltasten gehen weiter, Eingabe öffnet, Ziehen verschiebt, Mausrad oder + und − vergrößern.",
  "map of the story": "Landkarte der Geschichte",
  Enlarge: "Vergrößern",
  "Make smaller": "Verkleinern",
  "All of it": "Alles",
  "Where I am": "Wo ich bin",
  "The beginning of the story": "Der Anfang der Geschichte",

  // parts/models.js
  "belongs to this story. One that is not loaded is loaded when it is first asked, and another may have to give way to it":
    "gehört zu dieser Geschichte. Ein anderes wird geladen, wenn es zum ersten Mal gefragt wird; vielleicht muss ihm eines weichen",
  "the server's: {0}": "vom Server: {0}",
  "{0}, which this server does not have": "{0}, das dieser Server nicht hat",
  "{0} (cannot be loaded)": "{0} (lässt sich nicht laden)",
  "{0} (loaded)": "{0} (geladen)",
  "{0} (is being loaded)": "{0} (wird geladen)",

  // parts/number_field.js
  "{0}, as a slider": "{0}, als Schieberegler",

  // parts/numbers.js
  "continuations at once": "Fortsetzungen zugleich",
  Length: "Länge",
  "tokens of each branch at most; 128 are about 90 words": "Token je Variante, höchstens; 128 sind etwa 90 Wörter",
  "How many of them": "Wie viele davon",
  "a branch stops after so many": "nach so vielen hält eine Variante an",
  "Sibling penalty": "Ähnlichkeitsstrafe",
  "how much a branch avoids the words of the others. 0: off":
    "wie sehr eine Variante die Wörter der anderen meidet. 0: aus",
  Seed: "Startwert",
  "the same seed and text give the same branches again":
    "derselbe Startwert und Text ergeben wieder dieselben Varianten",
  random: "zufällig",
  Size: "Größe",
  "of the manuscript's letters, in pixels": "der Buchstaben des Manuskripts, in Pixeln",
  Measure: "Zeilenlänge",
  "characters in a line": "Zeichen in einer Zeile",
  "{0}: a whole number from {1} to {2}.": "{0}: eine ganze Zahl von {1} bis {2}.",
  "{0}: a number from {1} to {2}.": "{0}: eine Zahl von {1} bis {2}.",
  "{0}: a whole number from {1} to {2}, or empty: {3}.": "{0}: eine ganze Zahl von {1} bis {2}, oder leer: {3}.",
  "{0}: a number from {1} to {2}, or empty: {3}.": "{0}: eine Zahl von {1} bis {2}, oder leer: {3}.",

  // parts/outline.js
  Outline: "Gliederung",
  "Where the text comes from": "Woher der Text kommt",
  "Show this passage": "Diese Stelle zeigen",
  "{0} branches here": "{0} Varianten hier",
  "hide what is set aside": "Weggelegtes ausblenden",
  "{0} unread, ★ {1}": "{0} ungelesen, ★ {1}",
  "Branches of the story": "Varianten der Geschichte",
  "Nothing has these words.": "Nichts enthält diese Wörter.",
  "Nothing is written yet.": "Noch ist nichts geschrieben.",
  "by {0}": "von {0}",
  unread: "ungelesen",
  starred: "mit Stern",
  "note: {0}": "Notiz: {0}",
  "End the text here": "Text hier enden lassen",
  "Close the fork": "Verzweigung schließen",
  "Open the fork": "Verzweigung öffnen",
  "another way": "ein anderer Weg",
  "one way on": "ein Weg weiter",
  "{0} other ways": "{0} andere Wege",
  "{0} ways": "{0} Wege",

  // parts/outline_acts.js
  "The chosen branch": "Die gewählte Variante",
  "Change the name": "Namen ändern",
  "Name: a chapter, a version": "Name: ein Kapitel, eine Fassung",
  "Change the note": "Notiz ändern",
  "Compare with the text (C)": "Mit dem Text vergleichen (C)",
  Compare: "Vergleichen",
  "Name (a chapter, a version)": "Name (ein Kapitel, eine Fassung)",

  // parts/palette.js
  "This browser keeps no keys.": "Dieser Browser speichert keine Tasten.",
  "Find an action": "Aktion suchen",
  "No action has these words.": "Keine Aktion enthält diese Wörter.",
  "Press the keys; Backspace: none; Esc: as before.": "Die Tasten drücken; Rücktaste: keine; Esc: wie bisher.",
  "Key of one’s own for “{0}”": "Eigene Taste für „{0}“",
  Key: "Taste",

  // parts/picture_files.js
  "has {0}; at most 64 MB are read": "hat {0}; höchstens 64 MB werden gelesen",
  "has {0}; a sound may have 8 MB": "hat {0}; ein Ton darf 8 MB haben",
  "is too large for this browser to make it smaller": "ist so groß, dass dieser Browser es nicht verkleinern kann",
  "cannot be read: it is damaged, or no picture (PNG, JPEG, GIF, BMP, WebP) or sound (WAV, MP3, FLAC)":
    "lässt sich nicht lesen: beschädigt, oder weder Bild (PNG, JPEG, GIF, BMP, WebP) noch Ton (WAV, MP3, FLAC)",

  // parts/picture_widgets.js
  "not loaded": "nicht geladen",
  "not here": "nicht hier",
  "Picture: {0}": "Bild: {0}",
  "Play {0}": "{0} abspielen",
  "Sound: {0}": "Ton: {0}",

  // parts/pictures.js
  "is not in the text: another story was opened": "steht nicht im Text: Eine andere Geschichte wurde geöffnet",
  "“{0}” {1}.": "„{0}“ {1}.",
  "Pictures and sounds": "Bilder und Töne",

  // parts/presets.js
  Usual: "Üblich",
  "as the server, without repeats": "wie der Server, ohne Wiederholungen",
  "Going on": "Ausdauernd",
  "for instruct models, which end early": "für Instruct-Modelle, die früh enden",
  Steady: "Ruhig",
  "keeps to likely words": "bleibt bei wahrscheinlichen Wörtern",
  Lively: "Lebhaft",
  "surprises now and then": "überrascht ab und zu",
  Wild: "Wild",
  "leaves the beaten track": "verlässt ausgetretene Pfade",
  "The server's": "Wie der Server",
  "every value as the server has it": "jeder Wert, wie ihn der Server hat",
  "Remove the preset {0}": "Voreinstellung {0} entfernen",
  "Keep these values as": "Diese Werte speichern als",
  "Give the preset a name.": "Die Voreinstellung braucht einen Namen.",
  "“{0}” is kept in this browser.": "„{0}“ ist in diesem Browser gespeichert.",
  "“{0}” is removed.": "„{0}“ ist entfernt.",
  "This browser does not let the page keep presets.":
    "Dieser Browser lässt die Seite keine Voreinstellungen speichern.",

  // parts/prose_editor.js
  "Write how your story begins …": "Hier beginnt die Geschichte …",
  Manuscript: "Manuskript",

  // parts/read_aloud.js
  "This browser has no voice.": "Dieser Browser hat keine Stimme.",
  "There is nothing to read from here on.": "Ab hier gibt es nichts vorzulesen.",

  // parts/reading.js
  Template: "Vorlage",
  "Made again from the story: the words before the cards as they stand, with memory, note and settings as they are now.":
    "Neu aus der Geschichte gebildet: die Wörter vor den Karten, wie sie dastehen, mit Gedächtnis, Notiz und Einstellungen von jetzt.",
  "Next round": "Nächste Runde",
  "Round beside the text": "Runde neben dem Text",
  "It cannot be shown now.": "Das lässt sich jetzt nicht zeigen.",
  "{0} characters": "{0} Zeichen",
  Prompt: "Prompt",

  // parts/search_words.js
  Find: "Suchen",
  Replace: "Ersetzen",
  next: "weiter",
  previous: "zurück",
  all: "alle",
  "match case": "Groß- und Kleinschreibung",
  regexp: "regulärer Ausdruck",
  "by word": "ganze Wörter",
  replace: "ersetzen",
  "replace all": "alle ersetzen",
  close: "schließen",
  "current match": "Fundstelle",
  "on line": "in Zeile",
  "replaced match on line $": "Stelle in Zeile $ ersetzt",
  "replaced $ matches": "$ Stellen ersetzt",
  "Control character": "Steuerzeichen",

  // parts/sent.js
  "System prompt and instruction": "System-Prompt und Anweisung",
  Story: "Geschichte",
  "Author's note": "Autorennotiz",
  "Room for the branches": "Platz für die Varianten",
  Part: "Teil",
  "Tokens, about": "Token, etwa",
  "Together, of {0}": "Zusammen, von {0}",
  "Word for word": "Wort für Wort",
  "{0} characters at the beginning are left out": "{0} Zeichen am Anfang fallen weg",
  "{0} characters at the end are left out": "{0} Zeichen am Ende fallen weg",

  // parts/settings.js
  "Choice of words": "Wortwahl",
  Page: "Seite",
  "nowhere: only their length ends them": "nirgends: nur ihre Länge beendet sie",
  "the end of a word": "am Ende eines Wortes",
  "the end of a line": "am Ende einer Zeile",
  "the end of a sentence": "am Ende eines Satzes",
  "the end of a paragraph": "am Ende eines Absatzes",
  "System prompt": "System-Prompt",
  "what the model is, and how it writes": "was das Modell ist, und wie es schreibt",
  "what it is asked to do": "was es tun soll",
  "through the model's chat template: it is told to write, and the story is its begun answer":
    "über die Chat-Vorlage des Modells: Es soll schreiben, und die Geschichte ist seine begonnene Antwort",
  "Settings of this story": "Einstellungen dieser Geschichte",
  "Never end": "Nie enden",
  "the model may not end the text: branches go on to where they stop":
    "das Modell darf den Text nicht beenden: Varianten laufen weiter, bis sie anhalten sollen",
  "Let the others finish": "Andere zu Ende schreiben lassen",
  "after one is taken; they take the machine's time from the next round":
    "wenn eine übernommen ist; das kostet die nächste Runde Rechenzeit",
  "Branches that differ": "Varianten, die sich unterscheiden",
  "Different beginnings": "Verschiedene Anfänge",
  "no two branches begin with the same word": "keine zwei Varianten beginnen mit demselben Wort",
  "A ladder": "Eine Leiter",
  "each branch has its own value, from the first to the last":
    "jede Variante hat ihren eigenen Wert, von der ersten bis zur letzten",
  "Ladder of": "Leiter für",
  From: "Von",
  "{0} of the first branch": "{0} der ersten Variante",
  To: "Bis",
  "{0} of the last branch": "{0} der letzten Variante",
  "Branches 1 to {0}: {1}": "Varianten 1 bis {0}: {1}",
  Repetition: "Wiederholung",
  "Rarely needed": "Selten gebraucht",
  "An empty field leaves the value to the server.": "Ein leeres Feld überlässt den Wert dem Server.",
  "The model is <b>{0}</b>.": "Das Modell ist <b>{0}</b>.",
  "No model is known yet.": "Noch ist kein Modell bekannt.",
  "How the story is put to it": "Wie ihm die Geschichte vorgelegt wird",
  "Base text": "Reiner Text",
  "the model goes on from the text as it stands": "das Modell schreibt den Text weiter, wie er dasteht",
  Chat: "Chat",
  "This model has no chat template.": "Dieses Modell hat keine Chat-Vorlage.",
  Probabilities: "Wahrscheinlichkeiten",
  "shows on the cards how much the model expected its own words":
    "zeigt auf den Karten, wie sehr das Modell seine eigenen Wörter erwartet hat",
  "As the browser asks": "Wie der Browser es wünscht",
  "Language of the page": "Sprache der Seite",
  Colours: "Farben",
  "As the system has them": "Wie im System",
  Light: "Hell",
  Dark: "Dunkel",
  "Font of the manuscript": "Schrift des Manuskripts",
  Book: "Buch",
  "letters of different widths, with serifs": "verschieden breite Buchstaben, mit Serifen",
  Typewriter: "Schreibmaschine",
  "letters of one width": "gleich breite Buchstaben",
  "Who wrote what": "Wer was geschrieben hat",
  "the model's words have an ink of their own, your edits among them a line":
    "die Wörter des Modells haben eine eigene Farbe, eigene Änderungen darin eine Linie",
  "Single keys": "Einzelne Tasten",
  "letters and digits act while the focus is in the branches: 3 takes the third":
    "Buchstaben und Ziffern wirken, solange der Fokus in den Varianten ist: 3 übernimmt die dritte",
  "The page changes its language when it is loaded again: not all of your words are kept yet.":
    "Die Sprache wechselt, wenn die Seite neu geladen wird: Noch ist nicht alles gespeichert.",

  // parts/share.js
  "may read": "darf lesen",
  "may read and write": "darf lesen und schreiben",
  "The name of somebody’s key for this server. Who may write changes the text; only you can share the story, or put it into the bin.":
    "Der Name eines Schlüssels, den jemand für diesen Server hat. Wer schreiben darf, ändert den Text; teilen oder in den Papierkorb legen kann die Geschichte nur, wem sie gehört.",
  "The server has nothing of this story yet. Write a word first.":
    "Der Server hat noch nichts von dieser Geschichte. Erst ein Wort schreiben.",
  "{0} has no access any more.": "{0} hat keinen Zugang mehr.",
  "{0} may read it now.": "{0} darf jetzt lesen.",
  "{0} may read and write it now.": "{0} darf jetzt lesen und schreiben.",
  "Write the name of a key.": "Hier fehlt der Name eines Schlüssels.",
  "That is your own name.": "Das ist der eigene Name.",
  "This server has no key with the name “{0}”.": "Dieser Server hat keinen Schlüssel mit dem Namen „{0}“.",
  'Share <span dir="auto">“{0}”</span>': '<span dir="auto">„{0}“</span> teilen',
  "The names are read …": "Die Namen werden gelesen …",
  "Shared with": "Geteilt mit",
  "You share it with nobody.": "Mit niemandem geteilt.",
  "What the name may do": "Was der Name darf",
  "What {0} may do": "Was {0} darf",
  "Share it with {0} no longer": "Nicht mehr mit {0} teilen",
  "Take away": "Entziehen",
  "another’s": "von jemand anderem",
  "This story is {0}, and you may read. Only its owner shares it.":
    "Diese Geschichte ist {0}; Lesen ist erlaubt. Teilen kann sie nur, wem sie gehört.",
  "This story is {0}, and you may read and write. Only its owner shares it.":
    "Diese Geschichte ist {0}; Lesen und Schreiben ist erlaubt. Teilen kann sie nur, wem sie gehört.",
  "This story is {0}, and you may not open it. Only its owner shares it.":
    "Diese Geschichte ist {0} und darf hier nicht geöffnet werden. Teilen kann sie nur, wem sie gehört.",

  // parts/side_panel.js
  "Who is who, where and when, and the tone. The model reads it before the story, however long that grows.":
    "Wer ist wer, wo und wann, und der Ton. Das Modell liest es vor der Geschichte, wie lang sie auch wird.",
  "Author’s note": "Autorennotiz",
  "A hint for what comes next. The model reads it near the end of the text, where it works most.":
    "Ein Hinweis auf das, was kommt. Das Modell liest ihn nahe am Ende des Textes, wo er am meisten wirkt.",
  "Paragraphs behind the note": "Absätze hinter der Notiz",
  paragraph: "Absatz",
  "stands before the last {0} {1}": "steht {0} {1} vor dem Ende",
  "{0} is the note.": "{0} ist die Notiz.",
  "{0} is the note, which stands alone without it.": "{0} ist die Notiz, die ohne das allein dasteht.",
  "About <b>{0}</b> of every prompt.": "Etwa <b>{0}</b> in jedem Prompt.",
  "That is {0} % of what the model can read; about {1} of the story fit beside it.":
    "Das sind {0} % dessen, was das Modell lesen kann; daneben passen etwa {1} der Geschichte.",
  "Not all of it fits: {0} characters at the end are not read.":
    "Nicht alles passt hinein: {0} Zeichen am Ende werden nicht gelesen.",

  // parts/status.js
  "The server is back.": "Der Server ist wieder da.",
  "No branch could be continued.": "Keine Variante konnte weitergeschrieben werden.",
  "Close this message": "Diese Meldung schließen",
  "Make a copy of my own": "Eigene Kopie anlegen",
  Join: "Zusammenführen",
  "Part of the model that is loaded": "Geladener Teil des Modells",
  "Enter the key": "Schlüssel eingeben",
  "Your 1 word of this window is in the outline: another window wrote last.":
    "Das eine Wort aus diesem Fenster steht in der Gliederung: Ein anderes Fenster hat zuletzt geschrieben.",
  "Your {0} words of this window are in the outline: another window wrote last.":
    "Die {0} Wörter aus diesem Fenster stehen in der Gliederung: Ein anderes Fenster hat zuletzt geschrieben.",
  "This story goes on in another window: 1 word.": "Diese Geschichte geht in einem anderen Fenster weiter: 1 Wort.",
  "This story goes on in another window: {0} words.":
    "Diese Geschichte geht in einem anderen Fenster weiter: {0} Wörter.",
  "{0} is loaded as soon as there is room for it.": "{0} wird geladen, sobald Platz dafür ist.",
  "This server has no model “{0}”, which this story asks for.":
    "Dieser Server hat kein Modell „{0}“, das diese Geschichte verlangt.",
  "The model {0} is being loaded. You can write meanwhile.": "Das Modell {0} wird geladen. Schreiben geht schon.",
  "The model is being loaded. You can write meanwhile.": "Das Modell wird geladen. Schreiben geht schon.",
  "The engine stopped and is being started again. Your text is kept.":
    "Die Engine ist stehen geblieben und wird neu gestartet. Der Text ist gesichert.",
  "The server cannot be reached. Write on: this browser keeps your text and sends it when the server is back.":
    "Der Server ist nicht erreichbar. Schreiben geht weiter: Dieser Browser behält den Text und sendet ihn, wenn der Server wieder da ist.",
  "The server asks for its API key. Until then this browser keeps your text.":
    "Der Server verlangt seinen API-Schlüssel. Bis dahin behält dieser Browser den Text.",
  "{0} cannot be loaded: {1}": "{0} lässt sich nicht laden: {1}",
  "No text can be continued until this is mended and the server is started again: {0}":
    "Es wird erst weitergeschrieben, wenn das behoben und der Server neu gestartet ist: {0}",
  "the engine does not answer": "die Engine antwortet nicht",
  "The branches are asked for.": "Die Varianten sind angefragt.",
  "The model reads the text.": "Das Modell liest den Text.",
  "{0} running, {1} ended.": "{0} laufen, {1} beendet.",
  "API key": "API-Schlüssel",
  "This server answers only with its API key.": "Dieser Server antwortet nur mit seinem API-Schlüssel.",
  "It stays in this tab, and is sent to this server only.": "Er bleibt in diesem Tab und geht nur an diesen Server.",
  "Key {0}": "Schlüssel {0}",
  "Remember it in this browser": "In diesem Browser merken",

  // parts/stories.js
  "“{0}” is in the bin.": "„{0}“ liegt im Papierkorb.",
  "“{0}” is back among the stories.": "„{0}“ ist wieder bei den Geschichten.",
  "The bin": "Der Papierkorb",
  "Open a sample": "Beispiel öffnen",
  "Import…": "Einlesen …",
  "Back to the stories": "Zurück zu den Geschichten",
  Bin: "Papierkorb",
  "Search by title": "Nach Titel suchen",
  "Search titles and texts": "Titel und Texte durchsuchen",
  "Stories stay in the bin for 30 days.": "Geschichten bleiben 30 Tage im Papierkorb.",
  "The texts could not be searched: {0}": "Die Texte ließen sich nicht durchsuchen: {0}",
  "The stories are read …": "Die Geschichten werden gelesen …",
  "No title has “{0}”.": "Kein Titel enthält „{0}“.",
  "The bin is empty.": "Der Papierkorb ist leer.",
  "There is no story yet: write in the manuscript, and it is saved.":
    "Noch gibt es keine Geschichte: Was im Manuskript geschrieben wird, ist gespeichert.",
  "open now": "jetzt geöffnet",
  "Rename {0}": "{0} umbenennen",
  Rename: "Umbenennen",
  "Share {0}": "{0} teilen",
  "Put {0} into the bin": "{0} in den Papierkorb legen",
  Title: "Titel",
  "goes for good {0}": "verschwindet {0} endgültig",
  "Restore {0}": "{0} wiederherstellen",
  Restore: "Wiederherstellen",
  "your changes are in this browser only": "die eigenen Änderungen sind nur in diesem Browser",
  "not on the server yet": "noch nicht auf dem Server",
  "{0}’s, to read": "von {0}, zum Lesen",

  // parts/summary.js
  "What has happened in the words that the model no longer reads.":
    "Was in den Wörtern geschehen ist, die das Modell nicht mehr liest.",
  "The model reads and summarizes …": "Das Modell liest und fasst zusammen …",
  "Write it anew": "Neu schreiben",
  "Let the model write it": "Vom Modell schreiben lassen",
  "Add what was cut since": "Ergänzen, was seither wegfiel",
  "The model reads the whole text, and no summary.": "Das Modell liest den ganzen Text und keine Zusammenfassung.",
  "The model no longer reads the first {0}; they stay in the text.":
    "Das Modell liest die ersten {0} nicht mehr; im Text bleiben sie stehen.",
  "The summary was written for another beginning.": "Die Zusammenfassung wurde für einen anderen Anfang geschrieben.",
  "The summary tells of all of them.": "Die Zusammenfassung deckt sie alle ab.",
  "The summary tells of the first {0}.": "Die Zusammenfassung deckt die ersten {0} ab.",

  // parts/task.js
  seen: "sieht",
  heard: "hört",
  smelled: "riecht",
  tasted: "schmeckt",
  felt: "fühlt",
  "Revise {0}": "{0} überarbeiten",
  "What happens next": "Was als Nächstes geschieht",
  "The passage is written anew from what stands before it and behind it.":
    "Die Stelle wird neu geschrieben, aus dem, was davor und dahinter steht.",
  "Revise, {0} ways": "Überarbeiten, {0}-fach",
  "Continue, {0} ways": "Weiterschreiben, {0}-fach",
  "Fill the gap": "Lücke füllen",
  How: "Wie",
  "Tell more of what is {0}": "Mehr von dem erzählen, was man {0}",
  "Tom refuses; Mara leaves": "Tom weigert sich; Mara geht",
  "For this round": "Für diese Runde",

  // parts/versions.js
  "Two versions": "Zwei Fassungen",
  "There is one version only so far. Continue the text, or change a word in its middle.":
    "Bisher gibt es nur eine Fassung. Den Text weiterschreiben, oder ein Wort in seiner Mitte ändern.",
  "Compare the manuscript with": "Das Manuskript vergleichen mit",
  "Make it the manuscript": "Zum Manuskript machen",
  "The manuscript": "Das Manuskript",
  "The other version": "Die andere Fassung",

  // parts/voices.js
  "The branches of a round are shared among them in turn, at most {0}; each card says which model wrote it.":
    "Die Varianten einer Runde werden reihum auf sie verteilt, auf höchstens {0}; jede Karte sagt, welches Modell sie geschrieben hat.",
  "Written by {0}, and also by": "Geschrieben von {0}, und auch von",
  "this server does not have it": "dieser Server hat es nicht",

  // round/slots.js
  "nothing was written": "nichts wurde geschrieben",
  "the connection ended": "die Verbindung endete",
  "the request has ended": "die Anfrage ist beendet",
  "the server has added no branch": "der Server hat keine Variante hinzugefügt",
  "Ended: the word is complete.": "Beendet: Das Wort ist vollständig.",
  "Ended: the line is complete.": "Beendet: Die Zeile ist vollständig.",
  "Ended: the sentence is complete.": "Beendet: Der Satz ist vollständig.",
  "Ended: the paragraph is complete.": "Beendet: Der Absatz ist vollständig.",
  "Set aside.": "Weggelegt.",
  "Waiting for its first words.": "Wartet auf die ersten Wörter.",
  "Being written.": "Wird geschrieben.",
  "no reason was given": "ohne Angabe von Gründen",
  "failed: {0}": "fehlgeschlagen: {0}",
  "Failed: {0}": "Fehlgeschlagen: {0}",
  "Ended: the passage is complete.": "Beendet: Die Passage ist vollständig.",
  "The model would end here.": "Das Modell würde hier enden.",
  "The model would end the text here.": "Das Modell würde den Text hier enden lassen.",
  "Ended at the stop word {0}.": "Beendet am Stoppwort {0}.",
  "Ended: the boundary is complete.": "Beendet: Die Grenze ist erreicht.",
  "cut off here": "hier abgeschnitten",
  "Ended at its full length; it can go on.": "In voller Länge beendet; es kann weitergehen.",
  "the context is full": "der Kontext ist voll",
  "Ended: the model's context is full.": "Beendet: Der Kontext des Modells ist voll.",
  "the engine was restarted": "die Engine wurde neu gestartet",
  "Ended: the engine was restarted.": "Beendet: Die Engine wurde neu gestartet.",
  stopped: "angehalten",
  "Stopped.": "Angehalten.",
  "the connection was lost": "die Verbindung ist abgebrochen",
  "The connection was lost: {0}": "Die Verbindung ist abgebrochen: {0}",
  "The connection was lost.": "Die Verbindung ist abgebrochen.",
  "ended: {0}": "beendet: {0}",
  "Ended: {0}": "Beendet: {0}",

  // story/check.js
  "A node has the id “{0}”; ids are 1 to 64 letters, digits, “-” and “_”.":
    "Ein Knoten hat die Kennung „{0}“; Kennungen sind 1 bis 64 Buchstaben, Ziffern, „-“ und „_“.",
  "Node {0} is not an object.": "Knoten {0} ist kein Objekt.",
  "Node {0} has no text.": "Knoten {0} hat keinen Text.",
  "Node {0} has {1} characters; a node may have {2}.": "Knoten {0} hat {1} Zeichen; erlaubt sind {2}.",
  "The text of node {0} holds half of a character.": "Der Text von Knoten {0} enthält ein halbes Zeichen.",
  "Node {0} names no author: “by” is person, model or import.":
    "Knoten {0} nennt nicht, von wem er ist: „by“ ist person, model oder import.",
  "Node {0} was made at no time: “made” is in milliseconds.":
    "Knoten {0} hat keine Entstehungszeit: „made“ steht in Millisekunden.",
  "In node {0}, “open” is neither true nor false.": "In Knoten {0} ist „open“ weder true noch false.",
  "Node {0} was changed at no time: “changed” is in milliseconds.":
    "Knoten {0} hat keine Änderungszeit: „changed“ steht in Millisekunden.",
  "Node {0} ended without a reason.": "Knoten {0} endete ohne Grund.",
  "In node {0}, “{1}” is not a number.": "In Knoten {0} ist „{1}“ keine Zahl.",
  "In node {0}, “index” is not a count.": "In Knoten {0} ist „index“ keine Anzahl.",
  "Node {0} names no run.": "Knoten {0} nennt keinen Durchlauf.",
  "Node {0} has no parent, but keeps a part of one.":
    "Knoten {0} hängt an keinem anderen, behält aber einen Teil davon.",
  "Node {0} has no proper parent.": "Knoten {0} hängt an keinem gültigen Knoten.",
  "Node {0} does not say how much of its parent it keeps.":
    "Knoten {0} sagt nicht, wie viel er von dem behält, an dem er hängt.",
  "In node {0}, “tail” lies before “keep”.": "In Knoten {0} liegt „tail“ vor „keep“.",
  "A run has the id “{0}”, which is none.": "Ein Durchlauf hat die Kennung „{0}“, die keine ist.",
  "Run {0} is not an object.": "Durchlauf {0} ist kein Objekt.",
  "Run {0} has no place.": "Durchlauf {0} hat keine Stelle.",
  "Run {0} was made at no time.": "Durchlauf {0} hat keine Entstehungszeit.",
  "The seeds of run {0} are not a list.": "Die Startwerte von Durchlauf {0} sind keine Liste.",

  // story/read.js
  "Node {0} keeps more of its parent than there is.": "Knoten {0} behält mehr von dem, an dem er hängt, als da ist.",
  "Run {0}": "Durchlauf {0}",
  "The story": "Die Geschichte",
  "The story has no proper id.": "Die Geschichte hat keine gültige Kennung.",
  "The story has no nodes.": "Die Geschichte hat keine Knoten.",
  "“runs”, “marks” and “settings” are objects in a story.":
    "„runs“, „marks“ und „settings“ sind in einer Geschichte Objekte.",
  "The story was changed at no time: “changed” is in milliseconds.":
    "Die Geschichte hat keine Änderungszeit: „changed“ steht in Millisekunden.",
  "The story has more than {0} nodes.": "Die Geschichte hat mehr als {0} Knoten.",
  "“media” is an object in a story.": "„media“ ist in einer Geschichte ein Objekt.",
  "The picture or sound {0} of the story has no bytes.": "Das Bild oder der Ton {0} der Geschichte hat keine Bytes.",
  "“changes” is an object in a story.": "„changes“ ist in einer Geschichte ein Objekt.",
  "“changes” holds the times of “meta” and of “marks”.": "„changes“ enthält die Zeiten von „meta“ und von „marks“.",
  "The parents of node {0} go round in a circle.": "Die Vorfahren von Knoten {0} laufen im Kreis.",
  "Node {0} stands on node {1}, which is not in the file.":
    "Knoten {0} hängt an Knoten {1}, der nicht in der Datei ist.",
  "The title of the story is not a text.": "Der Titel der Geschichte ist kein Text.",
  "The title of the story is longer than {0} characters.": "Der Titel der Geschichte ist länger als {0} Zeichen.",
  "The memory of the story is not a text.": "Das Gedächtnis der Geschichte ist kein Text.",
  "The note of the story is not a text.": "Die Notiz der Geschichte ist kein Text.",
  "The frame of the story's note is not a text.": "Der Rahmen der Notiz der Geschichte ist kein Text.",
  "The story's “{0}”": "Der Wert „{0}“ der Geschichte",
  "A mark stands on node {0}, which is not in the file.":
    "Eine Markierung steht an Knoten {0}, der nicht in der Datei ist.",
  "The marks of node {0} are not an object.": "Die Markierungen von Knoten {0} sind kein Objekt.",
  "The {0} of node {1} is not a text.": "Der Wert „{0}“ von Knoten {1} ist kein Text.",
  "A value of the story was changed at no time: times are in milliseconds.":
    "Ein Wert der Geschichte hat keine Änderungszeit: Zeiten stehen in Millisekunden.",
  "The file holds half of a character: it is damaged.": "Die Datei enthält ein halbes Zeichen: Sie ist beschädigt.",
  "The file is nested more than {0} levels deep.": "Die Datei ist mehr als {0} Stufen tief verschachtelt.",
  "The file holds the key __proto__, which no story has.":
    "Die Datei enthält den Schlüssel __proto__, den keine Geschichte hat.",
  "The file holds a number that is none.": "Die Datei enthält eine Zahl, die keine ist.",
  "The story is larger than 256 MB.": "Die Geschichte ist größer als 256 MB.",
  "The file is larger than 256 MB.": "Die Datei ist größer als 256 MB.",
  "The file is not JSON: {0}.": "Die Datei ist kein JSON: {0}.",
  "The file is not a story: it does not say “format”: “srb-story”.":
    "Die Datei ist keine Geschichte: In ihr steht nicht „format“: „srb-story“.",
  "The story is of version {0}; this page reads version 1.":
    "Version der Geschichte: {0}; diese Seite liest Version 1.",
  "{0} stands at a place that is not in the story.": "{0} steht an einer Stelle, die es in der Geschichte nicht gibt.",
  "Node {0} cuts a character of its parent into halves.":
    "Knoten {0} zerteilt ein Zeichen des Knotens, an dem er hängt.",
  "The story's edits are nested too deeply to be checked.":
    "Die Änderungen der Geschichte sind zu tief verschachtelt, um geprüft zu werden.",

  // parts/branches/board.js
  "Try another here": "Hier eine andere versuchen",

  // parts/branches/first_steps.js
  "Once upon a time, there was a lighthouse at the edge of the world.":
    "Es war einmal ein Leuchtturm am Rand der Welt.",
  "The letter arrived on a Tuesday, eleven years late.": "Der Brief kam an einem Dienstag, elf Jahre zu spät.",
  "Nobody in the village spoke of the old mill, but everybody knew who lived there.":
    "Niemand im Dorf sprach von der alten Mühle, aber alle wussten, wer dort lebte.",
  "Or begin with one of these:": "Oder mit einem dieser Sätze beginnen:",
  "Write how a story begins: “Once upon a time,” will do.":
    "Schreiben, wie eine Geschichte beginnt: „Es war einmal“ genügt.",
  'Press Continue<span class="keys"> or <kbd>Ctrl</kbd>+<kbd>Enter</kbd></span>: {0} continuations grow here, side by side.':
    '„Weiterschreiben“<span class="keys"> oder <kbd>Strg</kbd>+<kbd>Eingabe</kbd></span> drücken: {0} Fortsetzungen wachsen hier nebeneinander.',
  several: "mehrere",
  'Take one: its button<span class="keys">, or <kbd>F6</kbd> and its digit</span>; click a word first to take it only so far.':
    'Eine übernehmen: mit ihrem Knopf<span class="keys"> oder mit <kbd>F6</kbd> und ihrer Ziffer</span>; wer zuvor ein Wort anklickt, übernimmt sie nur bis dorthin.',
  'The others stay in the outline, and Undo<span class="keys"> (<kbd>Ctrl</kbd>+<kbd>Z</kbd>)</span> goes back.':
    'Die anderen bleiben in der Gliederung, und „Rückgängig“<span class="keys"> (<kbd>Strg</kbd>+<kbd>Z</kbd>)</span> führt zurück.',
  "Go on from my text": "Von meinem Text aus weiter",
  "Open a sample story": "Eine Beispielgeschichte öffnen",
  "All keys": "Alle Tasten",

  // parts/branches/gestures.js
  "Take, and go on from there": "Übernehmen und von dort weiterschreiben",
  "Take all of it, past the mark": "Ganz übernehmen, über die Marke hinaus",
  "Take without going on": "Übernehmen, ohne weiterzuschreiben",
  "Read the whole text": "Den ganzen Text lesen",
  "Go on: let it write more": "Weiter: mehr schreiben lassen",
  "Vary: more like it, from the mark on": "Abwandeln: mehr davon, ab der Marke",
  "Set aside, and stop writing": "Weglegen und nicht weiterschreiben",
  "Other words at the mark": "Andere Wörter an der Marke",
  "Mark one word more": "Ein Wort mehr markieren",
  "Mark one word less": "Ein Wort weniger markieren",
  "Mark up to the sentence's end": "Bis zum Satzende markieren",
  "Remove the mark": "Die Marke entfernen",
  "Show what is grouped": "Gruppierte zeigen",
  "Sort: first the cards after which your next words are likeliest":
    "Sortieren: zuerst die Karten, nach denen die eigenen Wörter dahinter am wahrscheinlichsten sind",
  "Bars: how likely each text is": "Balken: wie wahrscheinlich jeder Text ist",
  "Group the same texts": "Gleiche Texte gruppieren",
  "Try others in empty places": "An leeren Stellen andere versuchen",
  "More branches": "Mehr Varianten",
  "What the model read for these cards": "Was das Modell für diese Karten gelesen hat",
  "Stop all, keep the texts": "Alle anhalten, die Texte behalten",
  "No branch has told its likelihood yet. Sort again when one has ended.":
    "Noch keine Variante hat ihre Wahrscheinlichkeit genannt. Erneut sortieren, wenn eine beendet ist.",
  "These branches came without their likelihood. Those of the next round have it.":
    "Diese Varianten kamen ohne ihre Wahrscheinlichkeit. Die der nächsten Runde haben sie.",
  "The model reads what follows after each card.": "Das Modell liest nach jeder Karte, was folgt.",
  "Sorted by what follows.": "Nach dem sortiert, was folgt.",
  "Star removed.": "Stern entfernt.",
  "Star given.": "Stern vergeben.",

  // parts/branches/seam.js
  "after my words": "hinter meine Wörter",
  "in place of them": "an ihre Stelle",
  "These go on from “{0}”": "Diese schreiben weiter nach „{0}“",
  "These go on from “{0}”, which is not in the text any more.":
    "Diese schreiben weiter nach „{0}“, das nicht mehr im Text steht.",
  "Take a card": "Eine Karte übernehmen",
  "Go on from the text as it is now": "Vom Text aus weiterschreiben, wie er jetzt ist",
  "New round": "Neue Runde",

  // parts/branches/siblings.js
  expected: "erwartet",
  "rather expected": "eher erwartet",
  "in between": "dazwischen",
  "rather unlikely": "eher unwahrscheinlich",
  unlikely: "unwahrscheinlich",
  "{0} branches have this text.": "{0} Varianten haben diesen Text.",
  "Same text as branch {0}.": "Derselbe Text wie Variante {0}.",
  "Folded: same text as branch {0}.": "Eingeklappt: derselbe Text wie Variante {0}.",
  "Beside the others: {0}.": "Neben den anderen: {0}.",
  "Its likelihood was not asked for when it was written.":
    "Nach ihrer Wahrscheinlichkeit wurde beim Schreiben nicht gefragt.",

  // parts/branches/tree.js
  "Shared beginnings": "Gemeinsame Anfänge",
  "Take branch {0}": "Variante {0} übernehmen",
  "{0} branches": "{0} Varianten",
  "No text yet.": "Noch kein Text.",

  // parts/branches/views.js
  "Try others": "Andere versuchen",
  Sort: "Sortieren",
  "By what follows": "Nach dem Folgenden",
  Likelihood: "Wahrscheinlichkeit",
  Group: "Gruppieren",
  "All branches": "Alle Varianten",
  "Whole text": "Ganzer Text",
  "Previous branch": "Vorige Variante",
  "Next branch": "Nächste Variante",
  "Show shared beginnings once": "Gemeinsame Anfänge nur einmal zeigen",
  Tree: "Baum",
  "Bars: how likely the model finds each text": "Balken: wie wahrscheinlich das Modell jeden Text findet",
  "in place of {0}": "anstelle von {0}",
  "after “{0}”": "hinter „{0}“",
  "as asked: {0}": "wie gewünscht: {0}",
  "reading your text …": "liest den Text …",
  "Your text is read": "Der Text wird gelesen",
  "reading your text: {0} %": "liest den Text: {0} %",
  "This card": "Diese Karte",
  "Take to mark": "Bis zur Marke übernehmen",
  Others: "Andere",
  "All that can be done": "Alles, was möglich ist",
  "What can be done with this card": "Was mit dieser Karte möglich ist",
  "Note on this branch": "Notiz zu dieser Variante",
  "Keep the note": "Notiz behalten",

  // parts/palette/actions.js
  "Continue where the caret is": "An der Schreibmarke weiterschreiben",
  "Alternatives of the word at the caret": "Andere Wörter an der Schreibmarke",
  "Find and replace in the manuscript": "Im Manuskript suchen und ersetzen",
  "Stories, and search in all of them": "Geschichten, und Suche in allen",
  "Share this story with others who have a key": "Diese Geschichte mit anderen teilen, die einen Schlüssel haben",
  "What the model reads, and a summary of what it no longer does":
    "Was das Modell liest, und eine Zusammenfassung dessen, was nicht mehr",
  "Comment on the selected words": "Die ausgewählten Wörter kommentieren",
  "Goals: words a day, and of a chapter": "Ziele: Wörter am Tag und je Kapitel",
  "Say whether everything is saved": "Sagen, ob alles gespeichert ist",
  "Focus: show the text alone, or everything again": "Fokus: nur den Text zeigen, oder wieder alles",
  "Typewriter: keep the caret’s line in the middle, or not":
    "Schreibmaschine: die Zeile der Schreibmarke in der Mitte halten, oder nicht",
  "Read aloud: the card, what is selected or the text from the caret on; or stop":
    "Vorlesen: die Karte, die Auswahl oder den Text ab der Schreibmarke; oder anhalten",
  "Go to the text": "Zum Text",
  "Go to the branches": "Zu den Varianten",
  "Go to the outline": "Zur Gliederung",
  "Go to the next pane": "Zum nächsten Bereich",
  "Go to the pane before": "Zum vorigen Bereich",
  "Take branch {0}, and go on from there": "Variante {0} übernehmen und von dort weiterschreiben",

  // parts/palette/own_keys.js
  "{0} is the key of “{1}”.": "{0} ist die Taste von „{1}“.",
  "{0} belongs to the text. Take one with Ctrl or Alt, or F1 to F12.":
    "{0} gehört zum Text. Eine Taste mit Strg oder Alt nehmen, oder F1 bis F12.",

  // parts/stories/age.js
  "just now": "gerade eben",

  // parts/stories/places.js
  "No text has these words.": "Kein Text enthält diese Wörter.",
  "In the texts": "In den Texten",
  "There may be more places: write more of the words.": "Es gibt vielleicht mehr Stellen: Mehr Wörter grenzen sie ein.",
};
