"""The dialect of two servers of 2023, as it is registered."""

from srb.web.dialect import Dialect
from srb.web.dialects.legacy.routes import routes

DIALECT = Dialect("Lines of plain text, as a server of 2023 sent them", (routes,))
