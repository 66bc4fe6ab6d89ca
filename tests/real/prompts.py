"""Forty beginnings in eight scripts, five each."""

PROMPTS = {
    "Latin": (
        "The old man sat by the",
        "In a hole in the ground there lived",
        "It was a bright cold day in April, and the clocks were",
        "La tempête s'était levée pendant la nuit, et le petit port",
        "Die Wissenschaft des 19. Jahrhunderts war vor allem",
    ),
    "Cyrillic": (
        "Все счастливые семьи похожи друг на друга,",
        "Однажды весною, в час небывало жаркого заката, в Москве",
        "Столица Франции — город",
        "Жила-была в лесу старая",
        "Сегодня на улице холодно, поэтому я",
    ),
    "Greek": (
        "Η Αθήνα είναι η πρωτεύουσα",
        "Μια φορά κι έναν καιρό ήταν",
        "Το πρωί ο ήλιος ανέβηκε πάνω από τη",
        "Η φιλοσοφία γεννήθηκε στην αρχαία",
        "Δεν ήξερε τι να πει, γιατί",
    ),
    "Arabic": (
        "كان يا ما كان في قديم الزمان",
        "عاصمة مصر هي مدينة",
        "في الصباح الباكر خرج الرجل إلى",
        "العلم نور والجهل",
        "قالت الأم لابنها:",
    ),
    "Hebrew": (
        "בראשית ברא אלוהים את",
        "היה היה פעם מלך אחד",
        "ירושלים היא עיר",
        "בבוקר יצא האיש אל",
        "אני רוצה לאכול",
    ),
    "Devanagari": (
        "एक समय की बात है, एक गाँव में",
        "भारत की राजधानी",
        "सुबह सूरज निकला और",
        "वह घर से बाहर गया क्योंकि",
        "पानी जीवन के लिए",
    ),
    "Han": (
        "从前有一座山，山里有一座",
        "中国的首都是",
        "今天的天气很",
        "春眠不觉晓，处处闻",
        "他打开门，看见",
    ),
    "Kana and Hangul": (
        "むかしむかし、あるところに",
        "日本の首都は",
        "옛날 옛적에 한 마을에",
        "대한민국의 수도는",
        "今日はとても寒いので、",
    ),
}

# A text that is longer than a window of Gemma's, which is 512 tokens.
STORY = """Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do: once or \
twice she had peeped into the book her sister was reading, but it had no pictures or conversations in it, “and what is the \
use of a book,” thought Alice “without pictures or conversations?”

So she was considering in her own mind (as well as she could, for the hot day made her feel very sleepy and stupid), \
whether the pleasure of making a daisy-chain would be worth the trouble of getting up and picking the daisies, when \
suddenly a White Rabbit with pink eyes ran close by her.

There was nothing so very remarkable in that; nor did Alice think it so very much out of the way to hear the Rabbit say to \
itself, “Oh dear! Oh dear! I shall be late!” (when she thought it over afterwards, it occurred to her that she ought to \
have wondered at this, but at the time it all seemed quite natural); but when the Rabbit actually took a watch out of its \
waistcoat-pocket, and looked at it, and then hurried on, Alice started to her feet, for it flashed across her mind that \
she had never before seen a rabbit with either a waistcoat-pocket, or a watch to take out of it, and burning with \
curiosity, she ran across the field after it, and fortunately was just in time to see it pop down a large rabbit-hole \
under the hedge.

In another moment down went Alice after it, never once considering how in the world she was to get out again.

The rabbit-hole went straight on like a tunnel for some way, and then dipped suddenly down, so suddenly that Alice had not \
a moment to think about stopping herself before she found herself falling down a very deep well.

Either the well was very deep, or she fell very slowly, for she had plenty of time as she went down to look about her and \
to wonder what was going to happen next. First, she tried to look down and make out what she was coming to, but it was too \
dark to see anything; then she looked at the sides of the well, and noticed that they were filled with cupboards and \
book-shelves; here and there she saw maps and pictures hung upon pegs. She took down a jar from one of the shelves as she \
passed; it was labelled “ORANGE MARMALADE”, but to her great disappointment it was empty: she did not like to drop the jar \
for fear of killing somebody underneath, so managed to put it into one of the cupboards as she fell past it.

“Well!” thought Alice to herself, “after such a fall as this, I shall think nothing of tumbling down stairs! How brave \
they’ll all think me at home!”"""
