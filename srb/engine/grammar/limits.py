"""How large and how complex a grammar may be. Each limit bounds work of llguidance, or of the conversion for it."""

MAX_MADE_BYTES = 256 * 1024  # of a grammar that is made of the request's tools
MAX_DEPTH = 100  # of groups
MAX_REPEATS = 2000  # repetitions of one element, nested ones multiplied
MAX_SIZE = 20_000  # elements of a regular expression, with those of the rules that it names
