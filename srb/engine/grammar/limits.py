"""How large and how complex a grammar may be. Each limit bounds work of llguidance, or of the conversion for it."""

from llguidance import LLParserLimits

MAX_MADE_BYTES = 256 * 1024  # of a grammar made of the request's tools; one that a request brings has 64 KiB at most
MAX_DEPTH = 100  # of groups: the conversion recurses, and Python's own limit is 1000 frames
MAX_REPEATS = 2000  # repetitions of one element, nested ones multiplied; llama.cpp's limit
MAX_SIZE = 20_000  # elements of a regular expression, those of rules in sequences counted each time: the lexer's size
MAX_LEVELS = 64  # that rules may nest in a text; fewer where they are large. Each level is a copy of the rule
MIN_LEVELS = 8  # rules that have room for fewer are refused: they could write hardly any text that nests
MAX_RING = 64  # rules that end, or begin, with each other, and become repetitions; a larger ring has levels instead
MAX_TOKENS = 32  # tokens of the vocabulary that a grammar names; each takes a character of the private plane
MAX_SYMBOLS = 2000  # of a grammar in Lark; where all may be missing, a token takes 50 ms
MAX_DEPTH_OF_SCHEMAS = 64  # levels; the conversion and llguidance recurse
MAX_PARTS = 10_000  # schemas that hold together (`allOf`), counted for each that names them; a chain of 700 took 10 s
MAX_NESTED = 96  # lists and objects that are alternatives and lead to further ones; 300 lists take 0.6 s for a mask
MAX_CONSTANT = 16 * 1024  # characters of one value of `const` and `enum`; a text of 60,000 takes 0.1 s for a token
MAX_MULTIPLE = 20_000  # of all `multipleOf`, without points and last zeros; 99,991 takes 1 s to compile
MAX_IN_LARK = 16  # schemas within a grammar in Lark: as alternatives they take the time of all of them for a token
MAX_PATTERN = 8192  # characters of a schema's pattern; `[a-z]?` as often as fits takes 70 ms
MAX_TOGETHER = 8  # patterns for one text; with each the time doubles, and 20 take 15 s
# Seconds of a processor. A call into llguidance cannot be interrupted; a mask of an ordinary schema takes 0.3 ms.
CALL_SECONDS = 0.1  # of one call, for which all branches wait
TOKEN_SECONDS = 0.02  # of a text, for each of its tokens,
FREE_SECONDS = 0.5  # beyond these: the first tokens of a text cost most, while the lexer is made
STEP_SECONDS = 0.03  # of a step, for all grammars; texts beyond wait a step, or all branches would wait for them
SHARE_SECONDS = 0.0005  # of a token of a text that never waits: an ordinary grammar's takes 0.1 to 0.5 ms
# Of llguidance. A lexer of 200,000 takes 0.1 s to refuse. A mask of 10,000 items or 100,000 of the lexer's fuel, after which
# a grammar is refused, takes 10 ms; `\p{L}` over a vocabulary of 262,144 needs 80,000.
LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=100_000,
    max_items_in_row=1000,
    step_max_items=10_000,
    verbose_errors=False,
)
