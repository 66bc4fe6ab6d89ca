"""Stories: trees of splices in one SQLite file, which copies on several machines merge into by union."""
