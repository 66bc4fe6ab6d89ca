"""Files that others made, checked before native code reads them: models, media, the native library."""
