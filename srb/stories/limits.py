"""Limits of stories: sizes, numbers and depths beyond which a post or a file is refused."""

MAX_POST = 1024 * 1024  # bytes of the body of one post
MAX_STORY = 64 * 1024 * 1024  # bytes of one story, as a file and in the database
MAX_FILE = 1024 * 1024 * 1024  # bytes of a file that `srb stories import` reads; its nodes are not limited
MAX_NODES = 100_000  # of one story
NEARLY_FULL = 90  # percent of a story's bytes or nodes, from which on answers tell the room that is left
MAX_TEXT = 1024 * 1024  # UTF-16 units of one node's text
MAX_VALUE = 256 * 1024  # bytes of one value beside the texts: a setting, a note, a mark, a run, a node's further keys
MAX_MEDIUM = 8 * 1024 * 1024  # bytes of one picture or sound
MAX_MEDIA = 48 * 1024 * 1024  # characters of base64 of all media of one story, so that its texts always have room
MAX_MEDIA_COUNT = 20_000  # pictures and sounds of one file that is imported by the server
MAX_KEYS = 10_000  # values of one file's story itself: title, memory, settings and others
MAX_ENTRY = MAX_MEDIUM * 4 // 3 + MAX_VALUE  # bytes of one node, run, medium or a node's marks in such a file
MAX_ENTRY_VALUES = (
    MAX_VALUE // 2
)  # values within one of them, and within all that is none of them: a `0,` has two bytes
MAX_FRAME = 8 * 1024 * 1024  # bytes of all that is none of them
MAX_SIGNS = 5_000_000  # commas and brackets of such a file: what counting them may cost
MAX_DEPTH = 32  # levels of a value
MAX_KEY = 200  # characters of a key
MAX_TITLE = 1000  # characters
MAX_NUMBER = 2**53 - 1  # the greatest integer that JavaScript counts to

BIN_DAYS = 30  # days that a story stays in the bin
DAY = 24 * 60 * 60 * 1000  # in milliseconds
