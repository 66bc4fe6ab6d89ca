"""Limits of stories: sizes, numbers and depths beyond which a post or a file is refused."""

MAX_POST = 1024 * 1024  # bytes of one post's body, which is one transaction: others' posts wait for it
MAX_STORY = 64 * 1024 * 1024  # bytes of one story, as a file and in the database: a browser reads it whole
MAX_FILE = 1024 * 1024 * 1024  # bytes of a file that `srb stories import` reads; its nodes are not limited
MAX_NODES = 100_000  # of one story; the page holds all of them in memory
NEARLY_FULL = 90  # percent of a story's bytes or nodes, from which on answers tell the room that is left
MAX_TEXT = 1024 * 1024  # UTF-16 units of one node's text; no post has more
MAX_VALUE = 256 * 1024  # bytes of one value beside the texts: a setting, a note, a mark, a run, a node's further keys
MAX_MEDIUM = 8 * 1024 * 1024  # bytes of one picture or sound: a phone's photo fits
MAX_MEDIA = 48 * 1024 * 1024  # characters of base64 of all media of one story, so that its texts always have room
MAX_MEDIA_COUNT = 20_000  # pictures and sounds of one file that the server imports; each is a row
MAX_KEYS = 10_000  # values of one file's story itself: title, memory, settings and others; all are in memory at once
MAX_ENTRY = MAX_MEDIUM * 4 // 3 + MAX_VALUE  # bytes of one node, run, medium or a node's marks in such a file
MAX_ENTRY_VALUES = MAX_VALUE // 2  # within one of them, and within all that is none of them: a `0,` has two bytes
MAX_FRAME = 8 * 1024 * 1024  # bytes of all that is none of them; it is parsed in one go
MAX_SIGNS = 5_000_000  # commas and brackets of such a file: what counting them may cost
MAX_DEPTH = 32  # levels of a value: readers recurse, here and in the page
MAX_KEY = 200  # characters of a key: keys are indexed, and shown in errors
MAX_TITLE = 1000  # characters: a list of stories shows all titles
MAX_WANTED = 200  # characters of the words searched for, a sentence or two; each is compared at every place
MAX_FOUND = 200  # places that a search answers: more are not read, and are megabytes with their surroundings
MAX_FOUND_IN_STORY = 50  # of them in one story, so that none hides the others
SEARCH_SECONDS = 1.5  # after which a search answers what it has: nothing is saved meanwhile
MAX_NUMBER = 2**53 - 1  # the greatest integer that JavaScript counts to

BIN_DAYS = 30  # days that a story stays in the bin, as people know it of mail and photos
DAY = 24 * 60 * 60 * 1000  # in milliseconds
