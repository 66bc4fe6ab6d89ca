"""Write stories: cast the people, fill the frame from a world, and tell a plot in one of several forms."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tools.storyteller.grammar import PRONOUNS, Frame, Person, load_fields, load_groups, load_plots, polish

PLOTS = load_plots()
OPENINGS = load_groups("openings.txt")
ASIDES = load_groups("asides.txt")
FORMS = load_groups("forms.txt")
FIELDS = load_fields("worlds.txt")
NAMES = FIELDS.pop("names")
WORDS = FIELDS.pop("words")

# In these plots "they" means the hero and a friend in lines that do not go through [they].
THIRD_PERSON_ONLY = {"quarrel", "farewell", "vigil", "rescue", "child"}
VERBS = {
    "say": (("said", 1),),
    "reply": (("said", 6), ("answered", 4), ("replied", 2)),
    "ask": (("asked", 8), ("wanted to know", 1)),
    "whisper": (("whispered", 5), ("murmured", 1)),
    "cry": (("cried", 3), ("shouted", 3), ("called", 2)),
    "laugh": (("laughed", 1),),
    "read": (("read", 1),),
}
SYLLABLES = (
    "Ta Or Be Mi Lu Sa Ka Ro El Vi Jo Fa Ne Ul Am Pe Do Zi Har Wil Tor Bri",
    "l r n v m d s th ss nd k",
    "a in en o is el us ia ek ora ette",
)


def invented_name(rng: random.Random) -> str:
    """Join syllables into a name that is in no list, so that a reader of the corpus must learn to copy names."""
    first, middle, last = (rng.choice(part.split()) for part in SYLLABLES)
    return first + middle + last if first[-1] in "aeiou" else first + last


def _verb(rng: random.Random, kind: str) -> str:
    verbs = VERBS[kind]
    return rng.choices([verb for verb, _ in verbs], [weight for _, weight in verbs])[0]


@dataclass(frozen=True, slots=True)
class Story:
    """A finished text and where it came from."""

    text: str
    world: str
    plot: str
    form: str
    hero: str
    role: str
    friend: str
    place: str
    thing: str


class Teller:
    """Tell one story: holds its random source, its cast and its frame."""

    def __init__(self, rng: random.Random, *, person: int | None = None, world: str | None = None) -> None:
        self.rng = rng
        self.world = world or rng.choice(list(FIELDS))
        self.fields = FIELDS[self.world]
        self.person = person or (1 if rng.random() < 0.27 else 3)
        self._cast()
        self.frame = Frame(rng, self.world, self.person)
        self._fill_people()
        self._fill_world()
        self.new_episode()

    # -- the cast

    def _name(self, gender: str, taken: set[str]) -> str:
        kind = "beast_" if self.world == "fable" else ""
        pool = NAMES[f"{kind}{gender}" if kind else f"{gender}_names"]
        while True:
            name = invented_name(self.rng) if self.rng.random() < 0.12 else self.rng.choice(pool)
            if name not in taken:
                return name

    def _role(self, gender: str, roles: list[str]) -> tuple[str, str]:
        while True:
            role, _, short = self.rng.choice(roles).partition(":")
            if role in (WORDS["women" if gender == "he" else "men"]):
                continue
            child = "girl" if gender == "she" else "boy"
            if "@@" in role or "@@" in short:
                return role.replace("@@", child), child
            if "@" in role:
                return role.replace("@", "daughter" if gender == "she" else "son"), child
            return role, short or role

    def _cast(self) -> None:
        rng = self.rng
        gender = rng.choice(("she", "he"))
        role, short = self._role(gender, self.fields["young"] if rng.random() < 0.6 else self.fields["old"])
        name = self._name(gender, set())
        self.name, self.hero_gender = name, gender
        self.hero = Person(name, "I" if self.person == 1 else gender, role, short)
        other = {"she": "he", "he": "she"}[gender]
        fgender = other if rng.random() < 0.75 else gender
        fname = self._name(fgender, {name})
        kin = (
            ("sister", "cousin", "friend", "neighbour")
            if fgender == "she"
            else ("brother", "cousin", "friend", "neighbour")
        )
        if self.world == "fable":
            kin = ("friend", "neighbour", "cousin")
        relation = rng.choice((*kin, "friend", "best friend"))
        self.friend = Person(fname, fgender, first=f"[his] {relation} {fname}")
        egender = rng.choice(("she", "he"))
        erole, eshort = self._role(egender, [r for r in self.fields["elder"] if r != role] or self.fields["elder"])
        ename = self._name(egender, {name, fname}) if rng.random() < 0.6 else ""
        age = "" if erole.startswith("old ") else rng.choice(("old ", "", "old "))
        first = f"{age}{ename} the {erole.removeprefix('old ')}" if ename else f"the {age}{erole}"
        self.elder = Person(ename, egender, erole, eshort.removeprefix("old "), first)

    # -- the frame

    def _possessive(self, who: Person) -> str:
        if who.gender == "I":
            return "my"
        return self.frame.expand(who.mention(self.rng)) + "'s"

    def _speech(self, kind: str, who: Person) -> str:
        rng, verb = self.rng, _verb(self.rng, kind)
        if who.gender == "I":
            return f"I {verb}"
        others = [p for p in (self.hero, self.friend, self.elder) if p is not who and p.known]
        if who.known and all(p.gender != who.gender for p in others) and rng.random() < 0.2:
            return f"{PRONOUNS[who.gender][0]} {verb}"
        subject = self.frame.expand(who.mention(rng))
        if " " in verb or rng.random() < 0.15:
            return f"{subject} {verb}"
        return f"{verb} {subject}" + (f" {rng.choice(WORDS['adverbs'])}" if rng.random() < 0.07 else "")

    def _fill_people(self) -> None:
        slots, rng = self.frame.slots, self.rng
        for who, letter, pronouns in (
            (self.hero, "H", "he him his hers self"),
            (self.friend, "F", "fe fim fis _ felf"),
            (self.elder, "E", "ee eim eis _ eself"),
        ):
            slots.update(zip(pronouns.split(), PRONOUNS[who.gender], strict=True))
            slots[letter] = lambda who=who: self.frame.expand(who.mention(rng))
            slots[letter + "s"] = lambda who=who: self._possessive(who)
            for kind in VERBS:
                slots[f"{kind} {letter}"] = lambda who=who, kind=kind: self._speech(kind, who)
        we = self.person == 1
        slots["Ho"] = lambda: "me" if we else self.hero.mention(rng)
        slots["HF"] = lambda: self.frame.expand("[F] and I" if we else "[H] and [F]")
        slots.update(they="we" if we else "they", them="us" if we else "them", their="our" if we else "their")
        xgender = rng.choice(("she", "he"))
        slots.update(zip(("xe", "xim", "xis"), PRONOUNS[xgender][:3], strict=True))
        slots.update(
            name=self._say_name,
            role=self.hero.role,
            short=self.hero.short,
            Fn=self._say_friend,
            Fintro=self._friend_intro,
        )
        slots["the_role"] = f"the {self.hero.role}"
        slots["call"] = rng.choice(
            (
                self.name,
                self.name,
                "child" if "@" in self.hero.short or self.hero.short in ("girl", "boy") else "my friend",
            )
        )

    def _say_name(self) -> str:
        self.hero.known = True
        return self.name

    def _say_friend(self) -> str:
        self.friend.known = True
        return self.friend.name

    def _friend_intro(self) -> str:
        known, self.friend.known = self.friend.known, True
        noun = "girl" if self.friend.gender == "she" else "boy"
        if known or self.world == "fable":
            return self.friend.name
        return f"a {noun} {self.rng.choice(('called', 'named'))} {self.friend.name}"

    def _fill_world(self) -> None:
        slots, rng, fields = self.frame.slots, self.rng, self.fields
        kind, _, place = rng.choice(fields["kind"]).partition(":")
        town = (
            invented_name(rng) + rng.choice(("", "ford", "ton", "mere", " Hill", "by"))
            if rng.random() < 0.3
            else rng.choice(fields["placename"])
        )
        slots.update(
            kind=kind, place=place, Place=town, where=rng.choice(fields["where"]), home=rng.choice(fields["home"])
        )
        if self.world == "forest" and town.startswith("the ") is False and rng.random() < 0.2:
            slots["Place"] = f"the {place}"
        for key in ("folk", "smell", "far", "beast"):
            slots[key] = rng.choice(fields[key])
        slots["elderrole"] = rng.choice(fields["elder"]).partition(":")[0].removeprefix("old ")
        slots["treat"] = lambda: rng.choice(fields["treat"])
        for key, group in (("proverb", ASIDES), ("quip", ASIDES), ("folkadj", ASIDES), ("date", FORMS)):
            slots[key] = lambda key=key, group=group: self.frame.expand(rng.choice(group[key]))
        slots["who_in"] = rng.choice((f"of {town}", f"who lived in {town}", f"from {town}"))

    def new_episode(self) -> None:
        """Draw the things, places and dangers of one plot; the cast and the world stay."""
        slots, rng, fields = self.frame.slots, self.rng, self.fields
        for key, count in (("work", 3), ("weather", 3), ("sound", 3), ("spot", 4), ("way", 3), ("danger", 2)):
            for number, item in enumerate(rng.sample(fields[key], count), 1):
                slots[f"{key}{number}"] = item
        pool = list(fields["thing"])
        if rng.random() < 0.3:
            pool = pool + [rng.choice(values["thing"]) for values in FIELDS.values()]
        nouns: list[str] = []
        for item in rng.sample(pool, len(pool)):
            long, _, noun = item.partition(":")
            noun = noun or long
            if noun in nouns:
                continue
            nouns.append(noun)
            mark = "" if len(nouns) == 1 else str(len(nouns))
            if " " in long and long.endswith(noun) and rng.random() < 0.3:
                long = f"{rng.choice(WORDS['adjectives'])} {noun}"
            slots[f"thing{mark}"], slots[f"athing{mark}"] = noun, long
        slots["machine"], slots["part"], slots["nodo"] = rng.choice(fields["machine"]).split(":")

    # -- the telling

    def line(self, templates: list[str] | tuple[str, ...]) -> str:
        """Expand one allowed template."""
        return self.frame.expand(self.frame.pick(list(templates)))

    def plot_parts(self, plot: str, *, skip: int = 0) -> list[str]:
        """Tell the beats of a plot, with an aside here and there."""
        parts: list[str] = []
        beats = [b for b in PLOTS[plot][skip:] if not (b.optional and self.rng.random() < 0.4)]
        for index, beat in enumerate(beats):
            parts.append(self.line(beat.lines))
            if 0 < index < len(beats) - 1 and self.rng.random() < 0.16:
                parts.append(self.line(ASIDES["aside"]))
        return parts

    def exchanges(self, form: str) -> list[str]:
        """Tell some exchanges of a scene; the first one brings in the friend."""
        chosen = self.rng.sample(FORMS[form], self.rng.randint(*((4, 9) if form == "talk" else (2, 5))))
        meets = [text for text in FORMS[form] if " F]" in text or "It is [Fn]" in text]
        first = self.rng.choice(meets)
        return [self.frame.expand(text) for text in [first, *(text for text in chosen if text != first)]]

    def join(self, parts: list[str], break_chance: float) -> str:
        """Join parts into paragraphs; a break comes by chance."""
        text = parts[0]
        for part in parts[1:]:
            speaks = part.startswith('"')
            chance = max(break_chance, 0.8) if speaks else break_chance
            text += ("¶" if (speaks and text.endswith('"')) or self.rng.random() < chance else " ") + part
        return polish(text)


def choose_plot(rng: random.Random, person: int) -> str:
    """Pick a plot that can be told in this person."""
    return rng.choice([plot for plot in PLOTS if person == 3 or plot not in THIRD_PERSON_ONLY])


BRIDGES = (
    "{A year later|Some weeks later|The next spring|Not long after that}, there was something new to tell.",
    "{But that was not the end.|That was not the last adventure.|But a quiet life was not meant for [Ho].}",
    "{Time passed|The seasons went by}, and [H] [work1] as before. {Then it began again.|Then came another day.}",
    "Chapter {Two|Three|Four}",
)


def tell(rng: random.Random) -> Story:
    """Write one story in a form drawn by chance."""
    form = rng.choices(
        ("plain", "midway", "paragraph", "serial", "letter", "diary", "talk", "now"), (44, 8, 5, 7, 5, 4, 22, 5)
    )[0]
    person = 1 if form in ("letter", "diary") else 3 if form in ("talk", "now") else None
    teller = Teller(rng, person=person)
    plot = choose_plot(rng, teller.person) if form not in ("talk", "now") else form
    teller.frame.plot = plot
    break_chance = 0.0 if form == "paragraph" else rng.choice((0.25, 0.45, 0.7))
    if form in ("talk", "now"):
        parts = [teller.line(FORMS[f"{form}_open"])]
        parts += teller.exchanges(form)
        parts.append(teller.line(FORMS[f"{form}_end"]))
    elif form == "midway":
        parts = teller.plot_parts(plot, skip=rng.choice((0, 0, 0, 1, 2)))
    elif form == "letter":
        parts = [teller.line(FORMS["letter_open"]), *teller.plot_parts(plot), teller.line(FORMS["letter_end"])]
    elif form == "diary":
        beats = teller.plot_parts(plot)
        middle = rng.randint(2, len(beats) - 2)
        parts = [teller.line(FORMS["diary_open"]), *beats[:middle]]
        parts.append("¶" + teller.line(FORMS["diary_next"]))
        parts += beats[middle:]
    else:
        group = "first" if teller.person == 1 else rng.choices(("once", "general"), (25, 75))[0]
        parts = [teller.line(OPENINGS[group])]
        if rng.random() < 0.5:
            parts.append(teller.line(OPENINGS["trait"]))
        parts += teller.plot_parts(plot)
        if form == "serial":
            for _ in range(rng.randint(1, 3)):
                teller.new_episode()
                parts.append("¶" + teller.line(BRIDGES) + "¶")
                plot = choose_plot(rng, teller.person)
                parts += teller.plot_parts(plot)
        if rng.random() < 0.55:
            parts.append(teller.line(ASIDES["end"]))
        if rng.random() < 0.04:
            parts.insert(0, teller.line(OPENINGS["title"]) + "¶")
    text = teller.join(parts, break_chance)
    frame = teller.frame.slots
    return Story(
        text,
        teller.world,
        plot,
        form,
        teller.name,
        teller.hero.role,
        teller.friend.name,
        str(frame["Place"]),
        str(frame["thing"]),
    )


def tell_seeded(seed: int, number: int) -> Story:
    """Write the story of this number; the same seed and number give the same story."""
    return tell(random.Random(f"story {seed} {number}"))
