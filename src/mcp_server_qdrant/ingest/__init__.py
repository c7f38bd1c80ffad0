"""The write path: texts to chunks that fit the model, chunks to points. Nothing here searches."""
