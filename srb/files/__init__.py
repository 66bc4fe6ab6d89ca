"""Files that others made, checked before they are used: models, media, the native library, states of other engines."""
