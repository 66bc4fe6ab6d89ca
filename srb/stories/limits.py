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
MAX_DEPTH = 32  # levels of a value
MAX_KEY = 200  # characters of a key
MAX_TITLE = 1000  # characters
MAX_NUMBER = 2**53 - 1  # the greatest integer that JavaScript counts to

BIN_DAYS = 30  # days that a story stays in the bin
DAY = 24 * 60 * 60 * 1000  # in milliseconds
