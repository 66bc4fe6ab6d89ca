"""Grammars: GBNF and JSON schemas as llguidance reads them, and where a branch's text stands in one."""
